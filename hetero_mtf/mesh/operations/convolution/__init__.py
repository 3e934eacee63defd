"""Convolutions on slices: whole, in slabs, depthwise, and their gradients."""
