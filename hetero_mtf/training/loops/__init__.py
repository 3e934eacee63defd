"""Keras's own loops: what they call runs the steps of a plan, and what they read is kept equal to it."""
