"""One-dimensional forms of the layers on windows: over steps, channels last."""

from __future__ import annotations

from hetero_mtf.layers.windowed.conv import Convolution
from hetero_mtf.layers.windowed.depthwise import DepthwiseConv2D, SeparableConv2D
from hetero_mtf.layers.windowed.pool import AveragePooling2D, GlobalAveragePooling2D, GlobalMaxPooling2D, MaxPooling2D
from hetero_mtf.layers.windowed.transposed import TransposedConvolution


class Conv1D(Convolution):
    """`keras.layers.Conv1D`, but for causal padding."""

    keras_class = "Conv1D"


class Conv1DTranspose(TransposedConvolution):
    """`keras.layers.Conv1DTranspose`."""

    keras_class = "Conv1DTranspose"


class DepthwiseConv1D(DepthwiseConv2D):
    """`keras.layers.DepthwiseConv1D`; kernel (steps, channels, multiplier)."""

    keras_class = "DepthwiseConv1D"


class SeparableConv1D(SeparableConv2D):
    """`keras.layers.SeparableConv1D`."""

    keras_class = "SeparableConv1D"


class MaxPooling1D(MaxPooling2D):
    """`keras.layers.MaxPooling1D`."""

    keras_class = "MaxPooling1D"


class AveragePooling1D(AveragePooling2D):
    """`keras.layers.AveragePooling1D`."""

    keras_class = "AveragePooling1D"


class GlobalAveragePooling1D(GlobalAveragePooling2D):
    """`keras.layers.GlobalAveragePooling1D` without a mask."""

    keras_class = "GlobalAveragePooling1D"


class GlobalMaxPooling1D(GlobalMaxPooling2D):
    """`keras.layers.GlobalMaxPooling1D`."""

    keras_class = "GlobalMaxPooling1D"
