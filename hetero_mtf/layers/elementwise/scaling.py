"""Layers that scale and shift values by fixed numbers: rescaling, normalization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.records import Layer, Variable
from hetero_mtf.layers.kind import LayerKind, Shape, extent


class Rescaling(LayerKind):
    """`keras.layers.Rescaling` by one number, or one a channel, plus one number, or one a channel."""

    keras_class = "Rescaling"
    pointwise = True
    backward = frozenset()
    kept = ("scale", "offset")

    def attributes(self, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
        attributes = super().attributes(name, config)
        return {option: _numbers(name, option, value) for option, value in attributes.items()}

    def settled(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> dict[str, Any]:
        return _for_channels(attributes, ("scale", "offset"), inputs[0][-1])

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        for option in ("scale", "offset"):
            value = attributes[option]
            if isinstance(value, list) and len(value) not in (1, inputs[0][-1]):
                raise UnsupportedError(
                    f"a Rescaling has {len(value)} numbers for {option} and {inputs[0][-1]} channels", "give one a channel"
                )
        return inputs[0]

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return 2.0 * extent(output)

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.rescale(inputs[0], layer.attributes["scale"], layer.attributes["offset"])


class Normalization(LayerKind):
    """`keras.layers.Normalization`: (x - mean) / sqrt(variance), both given or adapted; Keras's `count` is never used.

    Given numbers go through float32, as Keras takes them.
    """

    keras_class = "Normalization"
    pointwise = True
    backward = frozenset()
    kept = ("axis", "mean", "variance", "invert")
    ignored_variables = frozenset({"count"})

    def settled(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> dict[str, Any]:
        rank = len(inputs[0]) + 1
        axes = sorted(axis + rank if axis < 0 else axis for axis in attributes["axis"])
        if not all(0 < axis < rank for axis in axes) or len(set(axes)) < len(axes):
            raise UnsupportedError(f"a Normalization has axis={tuple(attributes['axis'])}", "name dimensions behind the batch, once each")
        per_channel = ("mean", "variance") if axes and axes[-1] == rank - 1 else ()
        return {**_for_channels(attributes, per_channel, inputs[0][-1]), "axis": axes}

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        own = tuple(inputs[0][axis - 1] for axis in attributes["axis"])
        for option in ("mean", "variance"):
            shape = np.shape(attributes[option]) if attributes[option] is not None else ()
            if len(shape) > len(own) or any(n not in (1, size) for n, size in zip(reversed(shape), reversed(own))):
                raise UnsupportedError(f"a Normalization has the shape {shape} for {option} and dimensions of {own}", "make them equal")
        return inputs[0]

    def variables(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Variable, ...]:
        if attributes["mean"] is not None:
            return ()
        shape = tuple(inputs[0][axis - 1] for axis in attributes["axis"])
        return (Variable("mean", shape, False), Variable("variance", shape, False))

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return 2.0 * extent(output)

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        options = {key: layer.attributes[key] for key in ("axis", "mean", "variance", "invert")}
        return b.standardize(inputs[0], **options)


def _for_channels(attributes: Mapping[str, Any], options: Sequence[str], channels: int) -> dict[str, Any]:
    """Return attributes whose numbers a channel are as many as there are channels: the first ones, in a part of a layer."""
    before = attributes.get("channels", channels)
    part_attributes = {**attributes, "channels": channels}
    for option in options if before != channels else ():
        numbers = np.asarray(attributes[option], object)
        if numbers.ndim and numbers.shape[-1] == before:
            part_attributes[option] = numbers[..., :channels].tolist()
    return part_attributes


def _numbers(name: str, option: str, value: Any) -> float | list[float]:
    """Return one number or a list, as Keras casts them: floats go through float32, NumPy's own numbers and arrays do not."""
    if isinstance(value, Mapping) and value.get("class_name") == "__numpy__":
        array = np.asarray(value["config"]["value"], value["config"]["dtype"])
    elif isinstance(value, (list, tuple, int, float)):
        array = np.asarray(value)
        numbers = np.ravel(np.asarray(value, object)).tolist() if array.ndim < 2 else []
        if array.dtype.kind == "f" and not any(isinstance(item, np.floating) for item in numbers):
            array = array.astype(np.float32)
    else:
        array = np.asarray(None)
    if array.ndim > 1 or array.size == 0 or array.dtype.kind not in "iuf":
        raise UnsupportedError(f"layer {name} (Rescaling) has {option}={value!r}", "give one number, or a list of one a channel")
    return array.tolist()  # type: ignore[no-any-return]
