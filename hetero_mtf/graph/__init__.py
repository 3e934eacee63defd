"""LayerGraph: a network as layers with shapes and costs, and the reader of Keras models."""
