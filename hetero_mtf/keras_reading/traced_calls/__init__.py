"""Calls of Keras operations as TensorFlow traces them: what they act on, keep and draw, and what such graphs need of both libraries."""
