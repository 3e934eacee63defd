"""The kinds of layers that are supported, by name."""

from __future__ import annotations

from hetero_mtf.errors import UnsupportedError
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
from hetero_mtf.layers.windowed.conv import Conv2D, Conv3D
from hetero_mtf.layers.windowed.depthwise import DepthwiseConv2D, SeparableConv2D
from hetero_mtf.layers.windowed.pool import (
    AveragePooling2D,
    AveragePooling3D,
    GlobalAveragePooling2D,
    GlobalAveragePooling3D,
    GlobalMaxPooling2D,
    GlobalMaxPooling3D,
    MaxPooling2D,
    MaxPooling3D,
)
from hetero_mtf.layers.windowed.steps import (
    AveragePooling1D,
    Conv1D,
    Conv1DTranspose,
    DepthwiseConv1D,
    GlobalAveragePooling1D,
    GlobalMaxPooling1D,
    MaxPooling1D,
    SeparableConv1D,
)
from hetero_mtf.layers.windowed.transposed import Conv2DTranspose, Conv3DTranspose

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
            f"{kind.keras_class} is known already and cannot be replaced; register a layer under a name such as mine>Gain"
        )
    KINDS[kind.keras_class] = kind
    return kind
