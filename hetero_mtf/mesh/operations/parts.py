"""Parts of a sum that is still owed: one all-reduce for all of them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.lowering import Lowering, lower_operation


class Parts(mtf.Operation):  # type: ignore[misc]
    """The slices of a tensor along its first dimension, each a tensor of its own; what is owed of it stays owed.

    Parameters
    ----------
    whole : mtf.Tensor [parts, ...], the first dimension whole. It has no gradient.
    """

    def __init__(self, whole: Any) -> None:
        super().__init__([whole], name=f"{whole.operation.name}_parts")
        first, *rest = whole.shape.dims
        self._outputs = [mtf.Tensor(self, mtf.Shape(rest), whole.dtype, index=i) for i in range(first.size)]

    @property
    def has_gradient(self) -> bool:
        return False


class _OwedPart(mtf.LazyAllreduceSum):  # type: ignore[misc]
    """One part of an owed sum: reduced when any part is asked for, together with the others."""

    def __init__(self, impl: Any, owed: Any, index: int) -> None:
        super().__init__(impl, _part(impl, owed.laid_out_input, index), owed.mesh_axes)
        self._owed, self._index = owed, index
        self._reduced: Any = None

    def to_laid_out_tensor(self) -> Any:
        if self._reduced is None:
            self._reduced = _part(self.mesh_impl, self._owed.to_laid_out_tensor(), self._index)
        return self._reduced


def _part(impl: Any, laid_out: Any, index: int) -> Any:
    pieces: list[tf.Tensor] = laid_out.tensor_list
    return impl.on_processors(lambda pnum: pieces[pnum][index])


@lower_operation.register(Parts)
def _lower_parts(operation: Parts, lowering: Lowering) -> None:
    impl, whole = lowering.mesh_impl(operation), lowering.tensors[operation.inputs[0]]
    for index, tensor in enumerate(operation.outputs):
        lazy = isinstance(whole, mtf.LazyAllreduceSum)
        part = _OwedPart(impl, whole, index) if lazy else _part(impl, whole.to_laid_out_tensor(), index)
        lowering.set_tensor_lowering(tensor, part)
