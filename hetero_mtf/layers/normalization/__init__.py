"""Layers that normalise by the statistics of a batch or of a sample."""
