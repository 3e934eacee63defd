"""Networks to try the project on: each a function that returns a Keras model, with logits as output and no device named."""
