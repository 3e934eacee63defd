"""Reads Keras models: what looks at live Keras objects, and at what their layers do as TensorFlow traces them."""
