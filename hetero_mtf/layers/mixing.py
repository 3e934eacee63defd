"""What convolutions and dense layers share: a kernel that mixes channels, a bias, an activation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from hetero_mtf.graph.records import Layer, Variable
from hetero_mtf.layers.activation import activation_name
from hetero_mtf.layers.kind import MIXING, LayerKind, Shape, extent, l2_factor


class MixingKind(LayerKind):
    """A layer whose kernel has input channels and output channels as its last two dimensions."""

    kept: ClassVar[tuple[str, ...]] = ("activation", "use_bias", "kernel_regularizer", "bias_regularizer")
    fixed: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "kernel_constraint": (None,),
        "bias_constraint": (None,),
        "activity_regularizer": (None,),
    }
    free = frozenset({"kernel_initializer", "bias_initializer"})
    mixes = True
    units_option: ClassVar[str]

    def attributes(self, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
        found = super().attributes(name, config)
        found["activation"] = activation_name(name, found["activation"])
        for variable in ("kernel", "bias"):
            option = f"{variable}_regularizer"
            found[f"{variable}_l2"] = l2_factor(name, option, found.pop(option))
        return found

    def with_units(self, attributes: Mapping[str, Any], units: int) -> dict[str, Any]:
        return {**attributes, self.units_option: units}

    def kernel_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        """Return the kernel's whole shape."""
        raise NotImplementedError

    def variables(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Variable, ...]:
        kernel = self.kernel_shape(attributes, inputs)
        bias = (Variable("bias", kernel[-1:], True),) if attributes["use_bias"] else ()
        return (Variable("kernel", kernel, True), *bias)

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return 2.0 * extent(self.kernel_shape(attributes, inputs)) * extent(output[:-1])

    def layouts(self, layer: Layer) -> frozenset[str]:
        return MIXING - {"column"} if layer.attributes["activation"] == "softmax" else MIXING

    def finish(self, b: Any, layer: Layer, mixed: Any) -> Any:
        """Return `mixed` with the bias added and the activation applied."""
        biased = b.add_bias(mixed, "bias") if layer.attributes["use_bias"] else mixed
        return b.activate(biased, layer.attributes["activation"])
