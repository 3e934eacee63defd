"""What layers with a kernel share: a bias, an activation, regularizers; and those whose kernel mixes channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from hetero_mtf.graph.records import Layer, Variable
from hetero_mtf.layers.elementwise.activation import activation_name, needed_by
from hetero_mtf.layers.kind import MIXING, LayerKind, Shape, extent, penalty_factors


class KernelKind(LayerKind):
    """A layer with kernels, an optional bias and an activation.

    Attributes
    ----------
    kernels : name of each kernel -> prefix of its options, such as "depthwise" in depthwise_regularizer.
    """

    kernels: ClassVar[Mapping[str, str]] = {"kernel": "kernel"}
    kept: ClassVar[tuple[str, ...]] = ("activation", "use_bias", "kernel_regularizer", "bias_regularizer")
    fixed: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "kernel_constraint": (None,),
        "bias_constraint": (None,),
        "activity_regularizer": (None,),
    }
    free = frozenset({"kernel_initializer", "bias_initializer"})

    def attributes(self, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
        attributes = super().attributes(name, config)
        attributes["activation"] = activation_name(name, attributes["activation"])
        for variable, prefix in {**self.kernels, "bias": "bias"}.items():
            option = f"{prefix}_regularizer"
            attributes.update(penalty_factors(name, option, attributes.pop(option), variable))
        return attributes

    def needs(self, layer: Layer) -> frozenset[str]:
        return super().needs(layer) | needed_by(layer.attributes["activation"], "inner")

    def finish(self, b: Any, layer: Layer, mixed: Any) -> Any:
        """Return `mixed` with the bias added and the activation applied."""
        biased = b.add_bias(mixed, "bias") if layer.attributes["use_bias"] else mixed
        return b.activate(biased, layer.attributes["activation"])


class MixingKind(KernelKind):
    """A layer whose kernel has input channels and output channels as its last two dimensions."""

    mixes = True
    units_option: ClassVar[str]

    def with_units(self, attributes: Mapping[str, Any], units: int) -> dict[str, Any]:
        return {**attributes, self.units_option: units}

    def kernel_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        """Return the kernel's full shape."""
        raise NotImplementedError

    def variables(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Variable, ...]:
        kernel = self.kernel_shape(attributes, inputs)
        bias = (Variable("bias", (attributes[self.units_option],), True),) if attributes["use_bias"] else ()
        return (Variable("kernel", kernel, True), *bias)

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return 2.0 * extent(self.kernel_shape(attributes, inputs)) * extent(output[:-1])

    def layouts(self, layer: Layer) -> frozenset[str]:
        # a softmax needs all channels of a position, and a column has some of them only
        return MIXING - {"column"} if layer.attributes["activation"] == "softmax" else MIXING
