"""What operations read of inputs in slabs: the other dimensions padded, and where each processor's positions begin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hetero_mtf.layers.reach import Reach, same_padding
from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations import pool
from hetero_mtf.mesh.operations.convolution.conv_in_slabs import Mirrored
from hetero_mtf.mesh.operations.halo import Halo
from hetero_mtf.planning.layout.arrangement import mirrors, reach_of
from hetero_mtf.program.ops.layer_context import LayerContext
from hetero_mtf.program.ops.value import Slabs, Value


class WindowOps(LayerContext):
    """Windows over a spatial dimension in slabs, of which each processor has all that its slab of the output reads."""

    def windows(
        self, x: Value, span: Sequence[int], strides: Sequence[int], padding: str, fill: float = 0.0
    ) -> tuple[Tensor, list[int | mtf.Dimension], str]:
        """Return what windows are laid over, the extents that they leave, and the padding that is left to TensorFlow.

        Parameters
        ----------
        span : (space,) positions that a window spans.
        strides : (space,) positions between windows.
        padding : "same" or "valid".
        fill : value of positions outside `x`.
        """
        slabs, extents = self.output_slabs, self.output_space()
        if slabs is None:
            return x.tensor, extents, padding.upper()
        sides = [(0, 0)] * len(span)
        if padding == "same":
            space = x.tensor.shape.dims[1:-1]
            sides = [same_sides(d.size, k, s) for d, k, s in zip(space, span, strides)]
            sides[slabs.dimension] = (0, 0)  # is in the halo
        padded = pool.pad_space(x.tensor, sides, fill, rematerialized=True) if any(map(any, sides)) else x.tensor
        return padded, extents, "VALID"

    @property
    def reach(self) -> tuple[Reach, ...]:
        """Which positions of its inputs the present layer reads along each spatial dimension."""
        return reach_of(self.graph, self.index)

    def held(self, reach: Reach) -> list[tuple[int, int, int]]:
        """Return for each processor the first position of the input that it reads, and its slab [begin, end) of the output."""
        slabs = self.output_slabs
        assert slabs is not None
        return [(reach.reads(*slabs.ranges[at])[0], *slabs.ranges[at]) for at in self.stage.places(slabs.axis)]

    def halos(self) -> list[tuple[int, int]]:
        """Return for each processor the positions inside the input that windows of its slab read before and after it, at stride 1."""
        slabs = self.output_slabs
        assert slabs is not None
        reach, extent = self.reach[slabs.dimension], self.layer.output_shape[slabs.dimension]
        reads = [(reach.reads(*each), each) for each in slabs.ranges]
        found = [(begin - max(first, 0), min(last, extent) - end) for (first, last), (begin, end) in reads]
        return [found[at] for at in self.stage.places(slabs.axis)]

    def mirrored(self, x: Value, window: Sequence[int]) -> Mirrored | None:
        """Return what the backward pass of a convolution reads; None where it reads `x` once more, see `mirrors`.

        Parameters
        ----------
        x : its input, as windows of its slab of the output read it.
        window : (space,) positions that a window spans.
        """
        slabs, made_by = self.output_slabs, x.tensor.operation
        assert slabs is not None
        if not mirrors(self.graph, self.index):
            return None
        along, own = slabs.dimension, made_by.inputs[0] if isinstance(made_by, Halo) else x.tensor
        made, k = self.output_space()[along], window[along]
        same = [made if at == 1 + along else d for at, d in enumerate(x.tensor.shape.dims)]
        if own.mesh is not x.tensor.mesh or own.shape.dims != same:
            return None
        ranges = tuple((begin - k // 2, end + (k - 1) // 2) if begin < end else (begin, end) for begin, end in slabs.ranges)
        read = Slabs(along, slabs.axis, ranges)
        return Mirrored(own, ranges, self.dimension_in(read, self.layer.output_shape[along]))

    def padding_factors(self, window: Sequence[int], strides: Sequence[int]) -> list[np.ndarray]:
        """Return (space,) arrays (extent of the output,): positions of each window, by those of them that are in the input."""
        space = self.graph.layers[self.layer.inputs[0]].output_shape[:-1]
        factors = []
        for n, made, k, s in zip(space, self.layer.output_shape, window, strides):
            begins = np.arange(made) * s - same_padding(n, k, s)
            factors.append(k / (np.minimum(begins + k, n) - np.maximum(begins, 0)))
        return factors


def same_sides(size: int, window: int, stride: int) -> tuple[int, int]:
    """Return the positions that TensorFlow's SAME adds before and after a dimension.

    >>> same_sides(8, 3, 1), same_sides(8, 3, 2), same_sides(7, 2, 1)
    ((1, 1), (0, 1), (0, 1))
    """
    before = same_padding(size, window, stride)
    return before, max((-(-size // stride) - 1) * stride + window - size - before, 0)
