"""Convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.records import Layer
from hetero_mtf.layers.contraction.kernel import MixingKind
from hetero_mtf.layers.kind import CHANNELWISE, REPLICATED, LayerKind, Shape
from hetero_mtf.layers.reach import Reach
from hetero_mtf.layers.windowed.window import convolved_reach, convolved_space


class Convolution(MixingKind):
    """A convolution, channels last; kernel (*kernel_size, input channels / groups, filters)."""

    units_option = "filters"
    kept = ("filters", "kernel_size", "strides", "padding", "dilation_rate", "groups", *MixingKind.kept)
    fixed = {**MixingKind.fixed, "data_format": ("channels_last",), "padding": ("same", "valid")}

    def of(self, attributes: Mapping[str, Any]) -> LayerKind:
        return GroupedConvolution(self) if attributes.get("apart") or attributes.get("groups", 1) > 1 else self

    def settled(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> dict[str, Any]:
        channels = inputs[0][-1]
        if attributes.get("apart"):  # in a part of a layer too
            return {**attributes, "groups": channels, "filters": channels}
        apart = {"apart": True} if attributes.get("groups", 1) == attributes["filters"] == channels > 1 else {}
        return {**attributes, **apart}

    def kernel_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        channels, groups = inputs[0][-1], attributes.get("groups", 1)
        if channels % groups or attributes["filters"] % groups:
            wrong = f"a {self.keras_class} has {groups} groups of {channels} channels and {attributes['filters']} filters"
            raise UnsupportedError(wrong, "choose groups that divide both")
        return (*attributes["kernel_size"], channels // groups, attributes["filters"])

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return (*convolved_space(attributes, inputs[0][:-1]), attributes["filters"])

    def reach(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Reach, ...]:
        return convolved_reach(attributes, inputs[0][:-1])

    def pads_slabs(self, attributes: Mapping[str, Any]) -> bool:
        options = *attributes["strides"], *attributes.get("dilation_rate", ()), attributes.get("groups", 1)
        return attributes["padding"] == "same" and {*options} == {1} and len(attributes["kernel_size"]) > 1 and not attributes.get("apart")

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        attributes = layer.attributes
        options = {key: attributes[key] for key in ("strides", "padding", "dilation_rate") if key in attributes}
        if attributes.get("apart"):
            return self.finish(b, layer, b.convolve_apart(inputs[0], "kernel", **options))
        return self.finish(b, layer, b.convolve(inputs[0], "kernel", **options, groups=attributes.get("groups", 1)))


class Conv2D(Convolution):
    """`keras.layers.Conv2D`."""

    keras_class = "Conv2D"


class Conv3D(Convolution):
    """`keras.layers.Conv3D`."""

    keras_class = "Conv3D"


class GroupedConvolution(LayerKind):
    """A convolution in groups: no column or row, as each filter reads the channels of its group only.

    With one channel and one filter a group its channels may be split, as those of a depthwise convolution.

    Parameters
    ----------
    plain : the kind that it is but for its layouts.
    """

    def __init__(self, plain: Convolution) -> None:
        self.plain = plain

    @property
    def keras_class(self) -> str:  # type: ignore[override]
        return self.plain.keras_class

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return self.plain.output_shape(attributes, inputs)

    def reach(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Reach, ...]:
        return self.plain.reach(attributes, inputs)

    def layouts(self, layer: Layer) -> frozenset[str]:
        return CHANNELWISE if layer.attributes.get("apart") and layer.attributes["activation"] != "softmax" else REPLICATED

    def needs(self, layer: Layer) -> frozenset[str]:
        return self.plain.needs(layer)

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return self.plain.build(b, layer, inputs)


class Conv1D(Convolution):
    """`keras.layers.Conv1D`, but for causal padding."""

    keras_class = "Conv1D"
