"""Activation, ReLU and Softmax, and the activations that other layers carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.records import Layer
from hetero_mtf.layers.kind import CHANNELWISE, REPLICATED, LayerKind, Shape

ELEMENTWISE_ACTIVATIONS = (
    "linear",
    "relu",
    "sigmoid",
    "tanh",
    "relu6",
    "elu",
    "selu",
    "softplus",
    "softsign",
    "silu",
    "gelu",
    "exponential",
)
ACTIVATIONS = (*ELEMENTWISE_ACTIVATIONS, "softmax")


def activation_name(name: str, value: Any) -> str:
    """Return the name of a supported activation in Keras's serialised form.

    Raises
    ------
    UnsupportedError
        For a function of the user's own, or an activation that is not supported.
    """
    if value is None:
        return "linear"
    if value in ("swish",):
        return "silu"
    if isinstance(value, str) and value in ACTIVATIONS:
        return value
    shown = value
    if isinstance(value, Mapping):  # a function has its name as config, a layer and a lambda their innards
        shown = value["config"] if isinstance(value.get("config"), str) else value.get("class_name", "lambda")
    raise UnsupportedError(f"layer {name} has the activation {shown!r}; supported are {', '.join(ACTIVATIONS)}")


class Activation(LayerKind):
    """`keras.layers.Activation`."""

    keras_class = "Activation"
    kept = ("activation",)

    def attributes(self, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
        return {**super().attributes(name, config), "activation": activation_name(name, config.get("activation"))}

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return inputs[0]

    def layouts(self, layer: Layer) -> frozenset[str]:
        return REPLICATED if layer.attributes["activation"] == "softmax" else CHANNELWISE

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.activate(inputs[0], layer.attributes["activation"])


class ReLU(LayerKind):
    """`keras.layers.ReLU`: a rectifier with optional ceiling, slope and threshold."""

    keras_class = "ReLU"
    kept = ("max_value", "negative_slope", "threshold")

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return inputs[0]

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.rectify(inputs[0], **layer.attributes)


class Softmax(LayerKind):
    """`keras.layers.Softmax` over the channels."""

    keras_class = "Softmax"
    fixed = {"axis": (-1,)}

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return inputs[0]

    def layouts(self, layer: Layer) -> frozenset[str]:
        return REPLICATED

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.activate(inputs[0], "softmax")
