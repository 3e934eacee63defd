"""Normalisation of each sample by its own statistics: layer, group, root-mean-square and unit normalisation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.records import Layer, Variable
from hetero_mtf.layers.kind import COMPUTE, FULL, LayerKind, Shape, extent, penalty_factors


class SampleNorm(LayerKind):
    """Statistics of each sample, over dimensions of which the channels may be split; gamma and beta.

    Where the channels are split, processors exchange two numbers for each mean in either pass.
    """

    needs_flat = True
    pointwise = True
    temporaries = 2
    precision = FULL
    kept: ClassVar[tuple[str, ...]] = ("axis", "epsilon", "center", "scale", "gamma_regularizer", "beta_regularizer")
    fixed: ClassVar[Mapping[str, tuple[Any, ...]]] = {"gamma_constraint": (None,), "beta_constraint": (None,)}
    free = frozenset({"gamma_initializer", "beta_initializer"})

    def attributes(self, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
        attributes = super().attributes(name, config)
        for variable in ("gamma", "beta"):
            option = f"{variable}_regularizer"
            if option in self.kept:
                attributes.update(penalty_factors(name, option, attributes.pop(option), variable))
        return attributes

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return inputs[0]

    def scaled_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        """Return the shape of gamma and beta."""
        return inputs[0][-1:]

    def variables(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Variable, ...]:
        names = [name for name, option in (("gamma", "scale"), ("beta", "center")) if attributes[option]]
        return tuple(Variable(name, self.scaled_shape(attributes, inputs), True) for name in names)

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return 8.0 * extent(output)

    def scores(self, layer: Layer) -> int:
        return 2 * extent(layer.output_shape[: len(layer.output_shape) - len(layer.attributes["axis"])])


class LayerNormalization(SampleNorm):
    """`keras.layers.LayerNormalization` over the last dimension, or the last several."""

    keras_class = "LayerNormalization"
    rounds_inputs: ClassVar[bool] = False
    fixed: ClassVar[Mapping[str, tuple[Any, ...]]] = {**SampleNorm.fixed, "rms_scaling": (False,)}

    def settled(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> dict[str, Any]:
        option, rank = attributes["axis"], len(inputs[0]) + 1
        axes = sorted(axis + rank if axis < 0 else axis for axis in ([option] if isinstance(option, int) else option))
        if not axes or axes != list(range(rank - len(axes), rank)) or axes[0] < 1:
            raise UnsupportedError(f"a {self.keras_class} has axis={option!r}", "only the last axis, or the last several, are supported")
        return {**attributes, "axis": axes}

    def scaled_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return inputs[0][-len(attributes["axis"]) :]

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.normalize_sample(inputs[0], len(layer.attributes["axis"]), layer.attributes["epsilon"])


class RMSNormalization(LayerNormalization):
    """`keras.layers.RMSNormalization` over the last dimension, or the last several; its variable is called scale."""

    keras_class = "RMSNormalization"
    rounds_inputs = True
    kept = ("axis", "epsilon")
    fixed = {}
    free = frozenset()

    def variables(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Variable, ...]:
        return (Variable("scale", self.scaled_shape(attributes, inputs), True),)

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return 4.0 * extent(output)

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.normalize_by_squares(inputs[0], len(layer.attributes["axis"]), layer.attributes["epsilon"])


class UnitNormalization(LayerNormalization):
    """`keras.layers.UnitNormalization` of the channels."""

    keras_class = "UnitNormalization"
    rounds_inputs = True
    precision = COMPUTE
    kept = ("axis",)
    fixed = {}
    free = frozenset()
    epsilon = 1e-12  # Keras's own

    def settled(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> dict[str, Any]:
        settled = super().settled(attributes, inputs)
        if len(settled["axis"]) > 1:
            raise UnsupportedError(f"a UnitNormalization has axis={attributes['axis']!r}", "only the last axis is supported")
        return settled

    def variables(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Variable, ...]:
        return ()

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return 3.0 * extent(output)

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.normalize_to_unit(inputs[0], self.epsilon)


class GroupNormalization(SampleNorm):
    """`keras.layers.GroupNormalization` of groups of channels, each over all positions; a group may lie on several devices."""

    keras_class = "GroupNormalization"
    rounds_inputs = False
    kept = ("groups", *SampleNorm.kept)

    def settled(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> dict[str, Any]:
        channels, groups = inputs[0][-1], attributes["groups"]
        if "size" not in attributes:
            return {**attributes, "groups": channels if groups == -1 else groups, "size": 1 if groups == -1 else max(channels // groups, 1)}
        size = math.gcd(channels, attributes["size"])  # of a part of a layer
        return {**attributes, "groups": channels // size}

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        if attributes["axis"] not in (-1, len(inputs[0])):
            raise UnsupportedError(f"a GroupNormalization has axis={attributes['axis']!r}", "only the last axis (channels) is supported")
        return inputs[0]

    def scores(self, layer: Layer) -> int:
        return 0 if layer.attributes["size"] == 1 else 2 * layer.units

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.normalize_groups(inputs[0], layer.attributes["groups"], layer.attributes["epsilon"])
