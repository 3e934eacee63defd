"""Activation, ReLU and Softmax, and the activations that other layers carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.errors import UnsupportedOptionError
from hetero_mtf.graph.records import Layer, Variable
from hetero_mtf.layers.kind import CHANNELWISE, REPLICATED, LayerKind, Shape, extent, penalty_factors

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
    "leaky_relu",
    "celu",
    "squareplus",
    "soft_shrink",
    "hard_shrink",
    "tanh_shrink",
    "sparse_plus",
    "sparse_sigmoid",
    "hard_sigmoid",
    "hard_silu",
    "hard_tanh",
    "mish",
    "log_sigmoid",
)
ACTIVATIONS = (*ELEMENTWISE_ACTIVATIONS, "softmax")
# their gradient is computed from the output, that of others from the input
_BY_OUTPUT = frozenset({"relu", "relu6", "leaky_relu", "elu", "selu", "sigmoid", "tanh", "exponential", "softmax"})


def activation_name(name: str, value: Any) -> str:
    """Return the name of a supported activation in Keras's serialised form.

    Raises
    ------
    UnsupportedError
        For a function of the user's own, or an activation that is not supported.
    """
    if value is None:
        return "linear"
    if value in ("swish", "hard_swish"):
        return str(value).replace("swish", "silu")
    if isinstance(value, str) and value in ACTIVATIONS:
        return value
    shown = value
    if isinstance(value, Mapping):  # a function has its name as config, a layer and a lambda their innards
        shown = value["config"] if isinstance(value.get("config"), str) else value.get("class_name", "lambda")
    raise UnsupportedOptionError(f"layer {name} has the activation {shown!r}", f"supported are {', '.join(ACTIVATIONS)}", "activation")


def needed_by(activation: str, before: str) -> frozenset[str]:
    """Return what the backward pass of an activation needs, in the terms of `LayerKind.needs`.

    Parameters
    ----------
    activation : its name.
    before : the name of what it is applied to: "input", or "inner" where a layer carries it.
    """
    if activation == "linear":
        return frozenset()
    return frozenset({"output"} if activation in _BY_OUTPUT else {before})


class Activation(LayerKind):
    """`keras.layers.Activation`."""

    keras_class = "Activation"
    pointwise = True
    kept = ("activation",)

    def attributes(self, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
        return {**super().attributes(name, config), "activation": activation_name(name, config.get("activation"))}

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return inputs[0]

    def layouts(self, layer: Layer) -> frozenset[str]:
        return REPLICATED if layer.attributes["activation"] == "softmax" else CHANNELWISE

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.activate(inputs[0], layer.attributes["activation"])

    def needs(self, layer: Layer) -> frozenset[str]:
        return needed_by(layer.attributes["activation"], "input") or frozenset({"view"})


class ReLU(LayerKind):
    """`keras.layers.ReLU`: a rectifier with optional ceiling, slope and threshold."""

    keras_class = "ReLU"
    pointwise = True
    kept = ("max_value", "negative_slope", "threshold")

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return inputs[0]

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        name = self._function(layer)
        if name == "leaky_relu":
            return b.leak(inputs[0], layer.attributes["negative_slope"])
        return b.activate(inputs[0], name) if name else b.activate_by(inputs[0], "relu", **layer.attributes)

    def needs(self, layer: Layer) -> frozenset[str]:
        return needed_by(self._function(layer), "input")

    def _function(self, layer: Layer) -> str:
        """Return the activation that Keras computes these options by; "" where it puts several together."""
        ceiling, slope, threshold = (layer.attributes[name] for name in self.kept)
        if threshold or (ceiling is not None and (slope or ceiling != 6)):
            return ""
        return "relu6" if ceiling else "leaky_relu" if slope else "relu"


class Softmax(LayerKind):
    """`keras.layers.Softmax` over the channels."""

    keras_class = "Softmax"
    pointwise = True
    backward = frozenset({"output"})
    fixed = {"axis": (-1,)}

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return inputs[0]

    def layouts(self, layer: Layer) -> frozenset[str]:
        return REPLICATED

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.activate(inputs[0], "softmax")


class LeakyReLU(LayerKind):
    """`keras.layers.LeakyReLU`."""

    keras_class = "LeakyReLU"
    pointwise = True
    kept = ("negative_slope",)

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return inputs[0]

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.leak(inputs[0], layer.attributes["negative_slope"])

    def needs(self, layer: Layer) -> frozenset[str]:
        return needed_by("leaky_relu", "input")


class ELU(LayerKind):
    """`keras.layers.ELU`."""

    keras_class = "ELU"
    pointwise = True
    kept = ("alpha",)

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return inputs[0]

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.activate(inputs[0], "elu") if layer.attributes["alpha"] == 1 else b.activate_by(inputs[0], "elu", **layer.attributes)

    def needs(self, layer: Layer) -> frozenset[str]:
        return needed_by("elu" if layer.attributes["alpha"] == 1 else "", "input")


class PReLU(LayerKind):
    """`keras.layers.PReLU`: max(x, 0) - alpha max(-x, 0), alpha learnt for each element, or shared along some dimensions."""

    keras_class = "PReLU"
    pointwise = True
    kept = ("shared_axes", "alpha_regularizer")
    fixed = {"alpha_constraint": (None,)}
    free = frozenset({"alpha_initializer"})

    def attributes(self, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
        attributes = super().attributes(name, config)
        return {**attributes, **penalty_factors(name, "alpha_regularizer", attributes.pop("alpha_regularizer"), "alpha")}

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return inputs[0]

    def variables(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Variable, ...]:
        shared = {axis - 1 for axis in attributes["shared_axes"] or ()}
        shape = [1 if axis in shared or axis - len(inputs[0]) in shared else n for axis, n in enumerate(inputs[0])]
        return (Variable("alpha", tuple(shape), True),)

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return 3.0 * extent(output)

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.rectify_learnt(inputs[0], "alpha")
