"""LayerGraph: a network as layers with shapes and costs."""
