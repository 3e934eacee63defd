"""Parts of a sum whose all-reduce is pending: one all-reduce for all of them."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.lowering import Lowering, lower_operation


class Parts(mtf.Operation):  # type: ignore[misc]
    """The slices of a tensor along its first dimension, each a tensor of its own; a pending all-reduce stays pending.

    Parameters
    ----------
    tensor : mtf.Tensor [parts, ...], the first dimension whole. It has no gradient.
    """

    def __init__(self, tensor: Any) -> None:
        super().__init__([tensor], name=f"{tensor.operation.name}_parts")
        first, *rest = tensor.shape.dims
        self._outputs = [mtf.Tensor(self, mtf.Shape(rest), tensor.dtype, index=i) for i in range(first.size)]

    @property
    def has_gradient(self) -> bool:
        return False


class _PendingPart(mtf.LazyAllreduceSum):  # type: ignore[misc]
    """One part of a pending sum: all parts are reduced together when any of them is read.

    Parameters
    ----------
    own : this part of each processor's partial sums.
    all_reduced : () -> all parts, reduced.
    index : index of the part.
    """

    def __init__(self, impl: Any, own: Any, mesh_axes: Any, all_reduced: Any, index: int) -> None:
        super().__init__(impl, own, mesh_axes)
        self._all_reduced, self._index = all_reduced, index
        self._reduced: Any = None

    def to_laid_out_tensor(self) -> Any:
        if self._reduced is None:
            self._reduced = self._all_reduced()[self._index]
        return self._reduced


def _apart(impl: Any, laid_out: Any) -> list[Any]:
    """Return the parts of a laid-out tensor, each laid out."""
    pieces: list[tf.Tensor] = laid_out.tensor_list
    return [impl.LaidOutTensor(list(part)) for part in zip(*impl.on_processors(lambda pnum: tf.unstack(pieces[pnum])).tensor_list)]


@lower_operation.register(Parts)
def _lower_parts(operation: Parts, lowering: Lowering) -> None:
    impl, lowered = lowering.mesh_impl(operation), lowering.tensors[operation.inputs[0]]
    if isinstance(lowered, mtf.LazyAllreduceSum):
        all_reduced = functools.cache(lambda: _apart(impl, lowered.to_laid_out_tensor()))
        own = _apart(impl, lowered.laid_out_input)
        parts = [_PendingPart(impl, part, lowered.mesh_axes, all_reduced, index) for index, part in enumerate(own)]
    else:
        parts = _apart(impl, lowered.to_laid_out_tensor())
    for tensor, part in zip(operation.outputs, parts):
        lowering.set_tensor_lowering(tensor, part)
