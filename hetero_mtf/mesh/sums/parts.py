"""Parts of a sum whose all-reduce is pending: one all-reduce for all of them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl
from hetero_mtf.mesh.lowering import Lowering, lower_operation


class Parts(mtf.Operation):
    """The parts of a tensor, each a tensor of its own; a pending all-reduce stays pending, one for all of them.

    Parameters
    ----------
    tensor : mtf.Tensor [parts, ...], the first dimension whole. It has no gradient.
    shapes : (parts,) mtf.Shape of each part of a vector, which holds their elements one after another; none for the slices of a tensor
        along its first dimension.
    """

    def __init__(self, tensor: Tensor, shapes: Sequence[mtf.Shape] = ()) -> None:
        super().__init__([tensor], name=f"{tensor.operation.name}_parts")
        self.shapes = list(shapes)
        first, *rest = tensor.shape.dims
        of_parts = self.shapes or [mtf.Shape(rest)] * first.size
        self._outputs = [mtf.Tensor(self, shape, tensor.dtype, index=i) for i, shape in enumerate(of_parts)]

    @property
    def has_gradient(self) -> bool:
        return False


class _PendingPart(mtf.LazyAllreduceSum):
    """One part of a pending sum: all parts are reduced together when any of them is read.

    Parameters
    ----------
    own : this part of each processor's partial sums.
    all_reduced : () -> all parts, reduced.
    index : index of the part.
    """

    def __init__(self, impl: UnevenMeshImpl, own: Any, mesh_axes: Sequence[int], all_reduced: Callable[[], list[Any]], index: int) -> None:
        super().__init__(impl, own, mesh_axes)
        self._all_reduced, self._index = all_reduced, index
        self._reduced: Any = None

    def to_laid_out_tensor(self) -> Any:
        if self._reduced is None:
            self._reduced = self._all_reduced()[self._index]
        return self._reduced


def _apart(impl: UnevenMeshImpl, laid_out: Any, shapes: Sequence[mtf.Shape]) -> list[Any]:
    """Return the parts of a laid-out tensor, each laid out."""
    pieces: list[tf.Tensor] = laid_out.tensor_list

    def cut(pnum: int) -> list[tf.Tensor]:
        if not shapes:
            return list(tf.unstack(pieces[pnum]))
        extents = [shape.to_integer_list for shape in shapes]
        return [tf.reshape(part, extent) for part, extent in zip(tf.split(pieces[pnum], [math.prod(e) for e in extents]), extents)]

    return [impl.LaidOutTensor(list(part)) for part in zip(*impl.on_processors(cut).tensor_list)]


@lower_operation.register(Parts)
def _lower_parts(operation: Parts, lowering: Lowering) -> None:
    impl, lowered, shapes = lowering.mesh_impl(operation), lowering.tensors[operation.inputs[0]], operation.shapes
    if isinstance(lowered, mtf.LazyAllreduceSum):
        all_reduced = functools.cache(lambda: _apart(impl, lowered.to_laid_out_tensor(), shapes))
        own = _apart(impl, lowered.laid_out_input, shapes)
        parts = [_PendingPart(impl, part, lowered.mesh_axes, all_reduced, index) for index, part in enumerate(own)]
    else:
        parts = _apart(impl, lowered.to_laid_out_tensor(), shapes)
    for tensor, part in zip(operation.outputs, parts):
        lowering.set_tensor_lowering(tensor, part)
