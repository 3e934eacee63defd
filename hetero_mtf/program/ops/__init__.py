"""Operations by which layers are built in Mesh-TensorFlow, one family per file."""
