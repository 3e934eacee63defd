"""A run: one training, its state, its plan, and its steps, without what Keras adds to them."""
