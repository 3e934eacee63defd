"""Layers that move values and compute none."""
