"""The words in which layers say their Mesh-TensorFlow form, a family a file."""
