"""What is known of each kind of layer; the one place to add a layer."""

from hetero_mtf.layers.kind import LayerKind
from hetero_mtf.layers.reading import KINDS, kind_of, layer_graph, make_layer

__all__ = ["KINDS", "LayerKind", "kind_of", "layer_graph", "make_layer"]
