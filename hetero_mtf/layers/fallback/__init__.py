"""Layers and operations without a description of their own: computed by Keras's own call, on slices where that is certain."""
