"""The kinds of layers: options, shapes, costs, legal layouts and computation; the one place to add a layer."""

from hetero_mtf.graph.records import Variable
from hetero_mtf.layers.catalogue import KINDS, kind_of, make_layer, register
from hetero_mtf.layers.fallback.certain import declare
from hetero_mtf.layers.kind import CHANNELWISE, REPLICATED, LayerKind

__all__ = ["CHANNELWISE", "KINDS", "REPLICATED", "LayerKind", "Variable", "declare", "kind_of", "make_layer", "register"]
