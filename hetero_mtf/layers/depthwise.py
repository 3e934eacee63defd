"""Convolutions that keep the channels apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.graph.records import Layer, Variable
from hetero_mtf.layers.kind import CHANNELWISE, REPLICATED, Shape, extent
from hetero_mtf.layers.mixing import KernelKind
from hetero_mtf.layers.window import dilated, window_shape


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
        *space, channels = inputs[0]
        window = dilated(attributes["kernel_size"], attributes["dilation_rate"])
        return (
            *window_shape(tuple(space), window, attributes["strides"], attributes["padding"]),
            channels * attributes["depth_multiplier"],
        )

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
        options = {key: layer.attributes[key] for key in ("strides", "padding", "dilation_rate")}
        return self.finish(b, layer, b.convolve_depthwise(inputs[0], "kernel", **options))
