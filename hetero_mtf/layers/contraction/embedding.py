"""Embedding: a row of a table for each whole number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.graph.records import Layer, Variable
from hetero_mtf.layers.kind import LayerKind, Shape, extent, penalty_factors


class Embedding(LayerKind):
    """`keras.layers.Embedding`; table (numbers, units), of which a device may have some columns."""

    keras_class = "Embedding"
    kept = ("input_dim", "output_dim", "embeddings_regularizer")
    fixed = {"embeddings_constraint": (None,), "activity_regularizer": (None,), "lora_rank": (None,), "lora_alpha": (None,)}
    free = frozenset({"embeddings_initializer", "mask_zero", "weights"})  # the mask is a node of its own
    mixes = True
    reads_integers = True
    backward = frozenset()

    def attributes(self, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
        attributes = super().attributes(name, config)
        option = "embeddings_regularizer"
        return {**attributes, **penalty_factors(name, option, attributes.pop(option), "embeddings")}

    def with_units(self, attributes: Mapping[str, Any], units: int) -> dict[str, Any]:
        return {**attributes, "output_dim": units}

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return (*inputs[0], attributes["output_dim"])

    def variables(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Variable, ...]:
        return (Variable("embeddings", (attributes["input_dim"], attributes["output_dim"]), True),)

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return float(extent(output))

    def layouts(self, layer: Layer) -> frozenset[str]:
        return frozenset({"replicated", "column"})

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.look_up(inputs[0], "embeddings")
