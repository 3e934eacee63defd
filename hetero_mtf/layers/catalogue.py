"""The kinds of layers that are supported, by name."""

from __future__ import annotations

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.layers.activation import Activation, ReLU, Softmax
from hetero_mtf.layers.conv import Conv2D
from hetero_mtf.layers.dense import Dense
from hetero_mtf.layers.depthwise import DepthwiseConv2D
from hetero_mtf.layers.dropout import Dropout
from hetero_mtf.layers.kind import LayerKind
from hetero_mtf.layers.merge import Add, Average, Concatenate, Maximum, Minimum, Multiply, Subtract
from hetero_mtf.layers.norm import BatchNormalization
from hetero_mtf.layers.pool import AveragePooling2D, GlobalAveragePooling2D, GlobalMaxPooling2D, MaxPooling2D
from hetero_mtf.layers.scaling import Normalization, Rescaling
from hetero_mtf.layers.shape import Flatten, InputLayer, Reshape, ZeroPadding2D

KINDS: dict[str, LayerKind] = {
    kind.keras_class: kind
    for kind in (
        InputLayer(),
        Conv2D(),
        DepthwiseConv2D(),
        Dense(),
        MaxPooling2D(),
        AveragePooling2D(),
        GlobalAveragePooling2D(),
        GlobalMaxPooling2D(),
        BatchNormalization(),
        Normalization(),
        Rescaling(),
        Activation(),
        ReLU(),
        Softmax(),
        Dropout(),
        Flatten(),
        Reshape(),
        ZeroPadding2D(),
        Add(),
        Multiply(),
        Subtract(),
        Average(),
        Maximum(),
        Minimum(),
        Concatenate(),
    )
}

_OWN = frozenset(KINDS)


def register(kind: LayerKind) -> LayerKind:
    """Make a kind of layer known, and return it; the same name may be registered anew.

    Parameters
    ----------
    kind : the description; its `keras_class` is the name that the Keras layer is registered under, such as "mine>Gain".

    Raises
    ------
    UnsupportedError
        If the name is that of a layer that is known from the start.
    """
    if kind.keras_class in _OWN:
        raise UnsupportedError(
            f"{kind.keras_class} is known already and cannot be replaced; register a layer under a name such as mine>Gain"
        )
    KINDS[kind.keras_class] = kind
    return kind
