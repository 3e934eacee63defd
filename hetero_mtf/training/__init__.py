"""Training a Keras model under a plan."""
