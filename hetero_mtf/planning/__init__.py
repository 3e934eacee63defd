"""Decides a plan: costs, whole sizes, layouts, strategies. Imports neither TensorFlow nor Keras."""
