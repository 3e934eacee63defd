"""The model and the data of a command, and what is prepared before a training; imported after TensorFlow is, but for `model_source`."""
