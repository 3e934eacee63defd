"""Convolutions that keep the channels apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.graph.records import Layer, Variable
from hetero_mtf.layers.contraction.kernel import KernelKind, MixingKind
from hetero_mtf.layers.kind import CHANNELWISE, REPLICATED, Shape, extent
from hetero_mtf.layers.reach import Reach
from hetero_mtf.layers.windowed.window import convolved_reach, convolved_space


class DepthwiseConv2D(KernelKind):
    """`keras.layers.DepthwiseConv2D`, channels last; kernel (height, width, channels, multiplier).

    With a multiplier of one the channels may be split; otherwise they are whole.
    """

    keras_class = "DepthwiseConv2D"
    kernels = {"kernel": "depthwise"}
    kept = (
        "kernel_size",
        "strides",
        "padding",
        "depth_multiplier",
        "dilation_rate",
        "activation",
        "use_bias",
        "depthwise_regularizer",
        "bias_regularizer",
    )
    fixed = {
        "depthwise_constraint": (None,),
        "bias_constraint": (None,),
        "activity_regularizer": (None,),
        "data_format": ("channels_last",),
        "padding": ("same", "valid"),
    }
    free = frozenset({"depthwise_initializer", "bias_initializer"})

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return (*convolved_space(attributes, inputs[0][:-1]), inputs[0][-1] * attributes["depth_multiplier"])

    def reach(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Reach, ...]:
        return convolved_reach(attributes, inputs[0][:-1])

    def variables(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Variable, ...]:
        channels, multiplier = inputs[0][-1], attributes["depth_multiplier"]
        bias = (Variable("bias", (channels * multiplier,), True),) if attributes["use_bias"] else ()
        return (Variable("kernel", (*attributes["kernel_size"], channels, multiplier), True), *bias)

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return 2.0 * extent(tuple(attributes["kernel_size"])) * extent(output)

    def layouts(self, layer: Layer) -> frozenset[str]:
        apart = layer.attributes["depth_multiplier"] == 1 and layer.attributes["activation"] != "softmax"
        return CHANNELWISE if apart else REPLICATED

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return self.finish(b, layer, _convolved_depthwise(b, layer, inputs[0], "kernel"))


class SeparableConv2D(MixingKind):
    """`keras.layers.SeparableConv2D`: a depthwise convolution, then one of single points that mixes channels.

    As a column every device computes all of the depthwise part; as a row, with a multiplier of one, its own channels.
    """

    keras_class = "SeparableConv2D"
    units_option = "filters"
    kernels = {"depthwise_kernel": "depthwise", "pointwise_kernel": "pointwise"}
    kept = (
        "filters",
        "kernel_size",
        "strides",
        "padding",
        "depth_multiplier",
        "dilation_rate",
        "activation",
        "use_bias",
        "depthwise_regularizer",
        "pointwise_regularizer",
        "bias_regularizer",
    )
    fixed = {
        "depthwise_constraint": (None,),
        "pointwise_constraint": (None,),
        "bias_constraint": (None,),
        "activity_regularizer": (None,),
        "data_format": ("channels_last",),
        "padding": ("same", "valid"),
    }
    free = frozenset({"depthwise_initializer", "pointwise_initializer", "bias_initializer"})

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return (*convolved_space(attributes, inputs[0][:-1]), attributes["filters"])

    def reach(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Reach, ...]:
        return convolved_reach(attributes, inputs[0][:-1])

    def variables(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Variable, ...]:
        channels, multiplier, filters = inputs[0][-1], attributes["depth_multiplier"], attributes["filters"]
        bias = (Variable("bias", (filters,), True),) if attributes["use_bias"] else ()
        return (
            Variable("depthwise_kernel", (*attributes["kernel_size"], channels, multiplier), True),
            Variable("pointwise_kernel", (*(1 for _ in attributes["kernel_size"]), channels * multiplier, filters), True),
            *bias,
        )

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        taps, channels = extent(tuple(attributes["kernel_size"])), inputs[0][-1] * attributes["depth_multiplier"]
        return float(2 * extent(output[:-1]) * channels * (taps + attributes["filters"]))

    def layouts(self, layer: Layer) -> frozenset[str]:
        return super().layouts(layer) - (frozenset() if layer.attributes["depth_multiplier"] == 1 else {"row"})

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        deep = _convolved_depthwise(b, layer, inputs[0], "depthwise_kernel")
        return self.finish(b, layer, b.convolve(deep, "pointwise_kernel", [1] * len(layer.attributes["kernel_size"]), "valid"))


def _convolved_depthwise(b: Any, layer: Layer, x: Any, kernel: str) -> Any:
    return b.convolve_depthwise(x, kernel, **{key: layer.attributes[key] for key in ("strides", "padding", "dilation_rate")})


class DepthwiseConv1D(DepthwiseConv2D):
    """`keras.layers.DepthwiseConv1D`; kernel (steps, channels, multiplier)."""

    keras_class = "DepthwiseConv1D"


class SeparableConv1D(SeparableConv2D):
    """`keras.layers.SeparableConv1D`."""

    keras_class = "SeparableConv1D"
