"""Normalisation of each sample by its own statistics: layer and group normalisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.records import Layer, Variable
from hetero_mtf.layers.kind import REPLICATED, LayerKind, Shape, extent, penalty_factors


class SampleNorm(LayerKind):
    """Statistics of each sample, over dimensions that must be whole; gamma and beta."""

    kept: ClassVar[tuple[str, ...]] = ("axis", "epsilon", "center", "scale", "gamma_regularizer", "beta_regularizer")
    fixed: ClassVar[Mapping[str, tuple[Any, ...]]] = {"gamma_constraint": (None,), "beta_constraint": (None,)}
    free = frozenset({"gamma_initializer", "beta_initializer"})

    def attributes(self, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
        attributes = super().attributes(name, config)
        for variable in ("gamma", "beta"):
            option = f"{variable}_regularizer"
            attributes.update(penalty_factors(name, option, attributes.pop(option), variable))
        return attributes

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return inputs[0]

    def scaled_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        """Return the shape of gamma and beta."""
        return inputs[0][-1:]

    def variables(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Variable, ...]:
        wanted = [name for name, option in (("gamma", "scale"), ("beta", "center")) if attributes[option]]
        return tuple(Variable(name, self.scaled_shape(attributes, inputs), True) for name in wanted)

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return 8.0 * extent(output)

    def layouts(self, layer: Layer) -> frozenset[str]:
        return REPLICATED


class LayerNormalization(SampleNorm):
    """`keras.layers.LayerNormalization` over the last dimension, or the last several."""

    keras_class = "LayerNormalization"
    fixed = {**SampleNorm.fixed, "rms_scaling": (False,)}

    def settled(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> dict[str, Any]:
        given, rank = attributes["axis"], len(inputs[0]) + 1
        axes = sorted(axis + rank if axis < 0 else axis for axis in ([given] if isinstance(given, int) else given))
        if not axes or axes != list(range(rank - len(axes), rank)) or axes[0] < 1:
            raise UnsupportedError(f"a LayerNormalization has axis={given!r}; only the last axis, or the last several, are supported")
        return {**attributes, "axis": axes}

    def scaled_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return inputs[0][-len(attributes["axis"]) :]

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.normalize_sample(inputs[0], len(layer.attributes["axis"]), layer.attributes["epsilon"])


class GroupNormalization(SampleNorm):
    """`keras.layers.GroupNormalization` of groups of channels, each over all positions."""

    keras_class = "GroupNormalization"
    kept = ("groups", *SampleNorm.kept)

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        if attributes["axis"] not in (-1, len(inputs[0])):
            raise UnsupportedError(f"a GroupNormalization has axis={attributes['axis']!r}; only the last axis (channels) is supported")
        return inputs[0]

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.normalize_groups(inputs[0], layer.attributes["groups"], layer.attributes["epsilon"])
