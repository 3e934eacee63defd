"""Models with a `train_step` or `compute_loss` of their own: the step is followed once on symbolic tensors, and runs on the cluster."""
