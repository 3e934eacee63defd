"""The kinds of layers that are supported, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.records import Layer
from hetero_mtf.layers.contraction.attention import Attention, ResidualWeight
from hetero_mtf.layers.contraction.dense import Dense, EinsumDense
from hetero_mtf.layers.contraction.embedding import Embedding
from hetero_mtf.layers.contraction.heads import HeadAttention, HeadOutput, HeadProjection
from hetero_mtf.layers.elementwise.activation import ELU, Activation, LeakyReLU, PReLU, ReLU, Softmax
from hetero_mtf.layers.elementwise.dropout import (
    Dropout,
    GaussianDropout,
    GaussianNoise,
    SpatialDropout1D,
    SpatialDropout2D,
    SpatialDropout3D,
)
from hetero_mtf.layers.elementwise.masked import MaskedOutput
from hetero_mtf.layers.elementwise.merge import Add, Average, Concatenate, Maximum, Minimum, Multiply, Subtract
from hetero_mtf.layers.elementwise.scaling import Normalization, Rescaling
from hetero_mtf.layers.fallback.keras_call_kind import OPTION, SPLIT, is_keras_call
from hetero_mtf.layers.kind import LayerKind
from hetero_mtf.layers.normalization.norm import BatchNormalization
from hetero_mtf.layers.normalization.sample_norm import GroupNormalization, LayerNormalization, RMSNormalization, UnitNormalization
from hetero_mtf.layers.reshaping.shape import (
    Cropping1D,
    Cropping2D,
    Cropping3D,
    Flatten,
    InputLayer,
    Permute,
    Reshape,
    UpSampling1D,
    UpSampling2D,
    UpSampling3D,
    ZeroPadding1D,
    ZeroPadding2D,
    ZeroPadding3D,
)
from hetero_mtf.layers.windowed.conv import Conv1D, Conv2D, Conv3D
from hetero_mtf.layers.windowed.depthwise import DepthwiseConv1D, DepthwiseConv2D, SeparableConv1D, SeparableConv2D
from hetero_mtf.layers.windowed.pool import (
    AveragePooling1D,
    AveragePooling2D,
    AveragePooling3D,
    GlobalAveragePooling1D,
    GlobalAveragePooling2D,
    GlobalAveragePooling3D,
    GlobalMaxPooling1D,
    GlobalMaxPooling2D,
    GlobalMaxPooling3D,
    MaxPooling1D,
    MaxPooling2D,
    MaxPooling3D,
)
from hetero_mtf.layers.windowed.transposed import Conv1DTranspose, Conv2DTranspose, Conv3DTranspose

KINDS: dict[str, LayerKind] = {
    kind.keras_class: kind
    for kind in (
        InputLayer(),
        Conv1D(),
        Conv1DTranspose(),
        DepthwiseConv1D(),
        SeparableConv1D(),
        MaxPooling1D(),
        AveragePooling1D(),
        GlobalAveragePooling1D(),
        GlobalMaxPooling1D(),
        UpSampling1D(),
        ZeroPadding1D(),
        Cropping1D(),
        Cropping2D(),
        Cropping3D(),
        SpatialDropout1D(),
        SpatialDropout2D(),
        SpatialDropout3D(),
        GaussianNoise(),
        GaussianDropout(),
        Conv2D(),
        Conv3D(),
        Conv2DTranspose(),
        Conv3DTranspose(),
        DepthwiseConv2D(),
        SeparableConv2D(),
        Dense(),
        EinsumDense(),
        Embedding(),
        MaxPooling2D(),
        MaxPooling3D(),
        AveragePooling2D(),
        AveragePooling3D(),
        GlobalAveragePooling2D(),
        GlobalAveragePooling3D(),
        GlobalMaxPooling2D(),
        GlobalMaxPooling3D(),
        UpSampling2D(),
        UpSampling3D(),
        ZeroPadding2D(),
        ZeroPadding3D(),
        BatchNormalization(),
        LayerNormalization(),
        GroupNormalization(),
        RMSNormalization(),
        UnitNormalization(),
        Normalization(),
        Rescaling(),
        Activation(),
        ReLU(),
        LeakyReLU(),
        ELU(),
        PReLU(),
        Softmax(),
        Dropout(),
        Flatten(),
        Reshape(),
        Permute(),
        Add(),
        Multiply(),
        Subtract(),
        Average(),
        Maximum(),
        Minimum(),
        Concatenate(),
        Attention(),
        HeadProjection(),
        HeadAttention(),
        HeadOutput(),
        ResidualWeight(),
        MaskedOutput(),
    )
}

OWN_KINDS = frozenset(KINDS)  # those of the project, without what users register


def register(kind: LayerKind) -> LayerKind:
    """Make a kind of layer known, and return it; a kind of the user's own may be replaced.

    Parameters
    ----------
    kind : the description; its `keras_class` is the name that the Keras layer is registered under, such as "mine>Gain".

    Raises
    ------
    UnsupportedError
        If the name is that of a layer that is known from the start.
    """
    if kind.keras_class in OWN_KINDS:
        raise UnsupportedError(
            f"{kind.keras_class} is known already and cannot be replaced", "register a layer under a name such as mine>Gain"
        )
    KINDS[kind.keras_class] = kind
    return kind


def kind_of(layer: Layer) -> LayerKind:
    """Return the description of the kind of `layer`.

    Raises
    ------
    UnsupportedError
        If the kind is not known.
    """
    if is_keras_call(layer):
        return SPLIT.of(layer.attributes)
    if layer.kind not in KINDS:
        raise unknown_kind(layer.name, layer.kind)
    return KINDS[layer.kind].of(layer.attributes)


def unknown_kind(name: str, kind: str) -> UnsupportedError:
    """Return the error of a layer of a kind that is not known here."""
    wrong = f"layer {name} is a {kind}, which Keras itself computes in a model in memory, and no file may name"
    return UnsupportedError(wrong, "give the function that makes the model, such as --model FILE.py:function")


def make_layer(name: str, kind: str, attributes: Mapping[str, Any], inputs: Sequence[int], shapes: Sequence[tuple[int, ...]]) -> Layer:
    """Return a layer whose shapes, variables and costs follow from its attributes and input shapes.

    Parameters
    ----------
    name, kind, attributes, inputs : as in `Layer`.
    shapes : the inputs' shapes, batch left out.

    Raises
    ------
    UnsupportedError
        If the layer does not go with inputs of these shapes.
    """
    described = SPLIT.of(attributes) if OPTION in attributes else KINDS[kind]
    try:
        attributes = described.settled(attributes, shapes)
        output = described.output_shape(attributes, shapes)
    except UnsupportedError as fault:
        raise UnsupportedError(f"layer {name}: {fault.reason}", fault.remedy) from fault
    if min(output) < 1:
        raise UnsupportedError(f"layer {name} ({kind}) would have the output shape {output}", f"its input {shapes[0]} is too small")
    variables = described.variables(attributes, shapes)
    return Layer(name, kind, attributes, tuple(inputs), output, variables, described.flops(attributes, shapes, output))
