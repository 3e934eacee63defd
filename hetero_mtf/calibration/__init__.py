"""Measuring devices: seconds of each layer as it will train, links, memory."""
