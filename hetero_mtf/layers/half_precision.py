"""What layers of half precision send and keep: which of their tensors have fewer bits than the network's, and the bytes of these."""

from __future__ import annotations

from hetero_mtf.graph.records import ITEM_BYTES, Layer
from hetero_mtf.layers.catalogue import kind_of
from hetero_mtf.layers.kind import COMPUTE, FULL

HALF = ("bfloat16", "float16")


def sums_in(layer: Layer) -> str | None:
    """Return the dtype in which the gradients of a layer's variables are sent and added, None for their own.

    It is the one that the layer computes in, where that has fewer bits: so the parts to be added were rounded.
    Where Keras's own call computes the layer, its gradients have their variables' dtype.
    """
    own = layer.compute_dtype if kind_of(layer).precision == COMPUTE else None
    return own if own in HALF and layer.variable_dtype not in HALF else None


def gradient_bytes(layer: Layer, network: str) -> int:
    """Return the bytes of the gradients of a layer's variables as they are sent.

    Parameters
    ----------
    network : dtype of the network.
    """
    item_bytes = ITEM_BYTES[sums_in(layer) or layer.variable_dtype or network]
    return item_bytes * sum(variable.size for variable in layer.variables if variable.trainable)


def widens(layer: Layer) -> bool:
    """Return whether a layer's passes compute with a copy of its input of more bits than it has."""
    return kind_of(layer).precision == FULL and layer.compute_dtype in HALF


def casts_weights(layer: Layer) -> bool:
    """Return whether a layer's passes compute with a copy of its weights of fewer bits than they have."""
    return sums_in(layer) is not None
