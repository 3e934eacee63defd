"""Transposed convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.graph.records import Layer
from hetero_mtf.layers.contraction.kernel import MixingKind
from hetero_mtf.layers.kind import Shape, extent
from hetero_mtf.layers.reach import Reach, same_padding


class TransposedConvolution(MixingKind):
    """A transposed convolution, channels last; kernel (*kernel_size, filters, input channels)."""

    units_option = "filters"
    kept = ("filters", "kernel_size", "strides", "padding", "output_padding", *MixingKind.kept)
    fixed = {**MixingKind.fixed, "data_format": ("channels_last",), "padding": ("same", "valid"), "dilation_rate": ([1, 1], [1], [1, 1, 1])}

    def kernel_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return (*attributes["kernel_size"], attributes["filters"], inputs[0][-1])

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        outer = attributes["output_padding"] or [None] * len(attributes["kernel_size"])
        columns = zip(inputs[0][:-1], attributes["kernel_size"], attributes["strides"], outer)
        return (*(_extent(*column, attributes["padding"]) for column in columns), attributes["filters"])

    def reach(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Reach, ...]:
        made = self.output_shape(attributes, inputs)
        columns = zip(attributes["kernel_size"], attributes["strides"], made)
        before = ((k, s, same_padding(n, k, s) if attributes["padding"] == "same" else 0) for k, s, n in columns)
        return tuple(Reach(*each, transposed=True) for each in before)

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return 2.0 * extent(self.kernel_shape(attributes, inputs)) * extent(inputs[0][:-1])

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        options = {key: layer.attributes[key] for key in ("strides", "padding", "output_padding")}
        return self.finish(b, layer, b.convolve_transposed(inputs[0], "kernel", **options))


class Conv2DTranspose(TransposedConvolution):
    """`keras.layers.Conv2DTranspose`."""

    keras_class = "Conv2DTranspose"


class Conv3DTranspose(TransposedConvolution):
    """`keras.layers.Conv3DTranspose`."""

    keras_class = "Conv3DTranspose"


def _extent(length: int, window: int, stride: int, outer: int | None, padding: str) -> int:
    """Return the extent of a transposed convolution's output, as Keras has it.

    >>> _extent(4, 3, 2, None, "same"), _extent(4, 3, 2, None, "valid"), _extent(4, 3, 2, 1, "valid")
    (8, 9, 10)
    """
    if outer is None:
        return length * stride + (max(window - stride, 0) if padding == "valid" else 0)
    return (length - 1) * stride + (window % 2 if padding == "same" else window) + outer


class Conv1DTranspose(TransposedConvolution):
    """`keras.layers.Conv1DTranspose`."""

    keras_class = "Conv1DTranspose"
