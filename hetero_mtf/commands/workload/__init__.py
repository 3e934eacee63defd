"""The model and the data of a command, and what is prepared before a training."""
