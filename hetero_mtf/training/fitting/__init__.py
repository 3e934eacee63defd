"""Fitting, evaluating and predicting: loops over batches, with validation and callbacks."""
