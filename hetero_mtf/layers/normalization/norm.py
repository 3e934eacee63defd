"""Normalisation layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.records import Layer, Variable
from hetero_mtf.layers.kind import FULL, LayerKind, Shape, extent, penalty_factors


class BatchNormalization(LayerKind):
    """`keras.layers.BatchNormalization` over the channels, with Keras 3's biased variance in the moving average too."""

    keras_class = "BatchNormalization"
    pointwise = True
    precision = FULL
    kept = ("momentum", "epsilon", "center", "scale", "gamma_regularizer", "beta_regularizer")
    fixed = {
        "gamma_constraint": (None,),
        "beta_constraint": (None,),
        "synchronized": (False,),
        "renorm": (False,),
        "renorm_clipping": (None,),
    }
    free = frozenset(
        {"axis", "gamma_initializer", "beta_initializer", "moving_mean_initializer", "moving_variance_initializer", "renorm_momentum"}
    )

    def attributes(self, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
        attributes = super().attributes(name, config)
        axis = config.get("axis", -1)
        for variable in ("gamma", "beta"):
            option = f"{variable}_regularizer"
            attributes.update(penalty_factors(name, option, attributes.pop(option), variable))
        return {**attributes, "axis": axis[0] if isinstance(axis, (list, tuple)) and len(axis) == 1 else axis}

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        if attributes["axis"] not in (-1, len(inputs[0])):
            raise UnsupportedError(f"a BatchNormalization has axis={attributes['axis']!r}", "only the last axis (channels) is supported")
        return inputs[0]

    def variables(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Variable, ...]:
        names = [name for name, present in (("gamma", attributes["scale"]), ("beta", attributes["center"])) if present]
        trained = tuple(Variable(name, inputs[0][-1:], True) for name in names)
        return (*trained, *(Variable(name, inputs[0][-1:], False) for name in ("moving_mean", "moving_variance")))

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return 8.0 * extent(output)

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        attributes = layer.attributes
        return b.normalize_batch(
            inputs[0],
            gamma="gamma" if attributes["scale"] else None,
            beta="beta" if attributes["center"] else None,
            momentum=attributes["momentum"],
            epsilon=attributes["epsilon"],
        )
