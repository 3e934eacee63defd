"""Words for layers with a kernel that mixes channels."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.operations import conv
from hetero_mtf.program.site import Site
from hetero_mtf.program.value import Value


class MixingWords(Site):
    """Convolution, matrix product and bias."""

    def convolve(self, x: Value, kernel: str, strides: Sequence[int], padding: str) -> Value:
        """Return the convolution of `x` with the layer's variable `kernel`."""
        *taps, _, filters = next(v.shape for v in self.layer.variables if v.name == kernel)
        dimensions = [*(mtf.Dimension(f"tap{i}", n) for i, n in enumerate(taps)), x.channels, self.output_dimension(filters)]
        y = conv.convolve_2d(x.tensor, self.parameter(kernel, dimensions), strides, padding.upper())
        return Value(y, self.output_sizes)

    def multiply_matrix(self, x: Value, kernel: str) -> Value:
        """Return `x` times the layer's variable `kernel` over the channels."""
        units = self.output_dimension(self.layer.units)
        return Value(conv.multiply_matrix(x.tensor, self.parameter(kernel, [*x.feature_dims, units])), self.output_sizes)

    def add_bias(self, x: Value, bias: str) -> Value:
        """Return `x` plus the layer's variable `bias` [channels]."""
        return dataclasses.replace(x, tensor=conv.add_bias(x.tensor, self.parameter(bias, [x.channels])))
