"""From a LayerGraph and a plan to one TensorFlow graph."""
