"""A Keras model that stays one, while its own `fit`, `evaluate` and `predict` run over a cluster."""
