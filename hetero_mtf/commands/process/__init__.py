"""The process of a command: the files it reads and writes, its interruption, and the loading of TensorFlow."""
