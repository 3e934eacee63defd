"""Words for layers with a kernel that mixes channels."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.operations import conv, depthwise
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

    def convolve_depthwise(
        self, x: Value, kernel: str, strides: Sequence[int], padding: str, dilation_rate: Sequence[int], space: Sequence[int] | None = None
    ) -> Value:
        """Return the convolution of each channel of `x` with its own part of the layer's variable `kernel`.

        Parameters
        ----------
        space : the output's spatial extents; None for the layer's own.
        """
        *taps, channels, multiplier = next(v.shape for v in self.layer.variables if v.name == kernel)
        if multiplier > 1 and x.sizes is not None:
            raise LayoutError(f"a depthwise convolution with a multiplier of {multiplier} needs its channels whole; gather them first")
        extents = self.layer.output_shape[:-1] if space is None else space
        own = [*(mtf.Dimension(f"tap{i}", n) for i, n in enumerate(taps)), x.channels, mtf.Dimension("multiplier", multiplier)]
        y = depthwise.convolve_depthwise(
            x.tensor, self.parameter(kernel, own), extents, strides, padding, dilation_rate, f"layer{self.index}:depth"
        )
        return Value(y, x.sizes)

    def multiply_matrix(self, x: Value, kernel: str) -> Value:
        """Return `x` times the layer's variable `kernel` over the channels."""
        units = self.output_dimension(self.layer.units)
        return Value(conv.multiply_matrix(x.tensor, self.parameter(kernel, [*x.feature_dims, units])), self.output_sizes)

    def add_bias(self, x: Value, bias: str) -> Value:
        """Return `x` plus the layer's variable `bias` [channels]."""
        return dataclasses.replace(x, tensor=conv.add_bias(x.tensor, self.parameter(bias, [x.channels])))
