"""Sums of gradients over microbatches: what is owed of them stays owed until the last is there."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.lowering import Lowering, lower_operation

Tensor = Any


def accumulate(total: Tensor, term: Tensor) -> Tensor:
    """Return `total` + `term`; where the all-reduces of both are owed, one all-reduce of the sum is owed.

    Where another operation had a term added up over the processors already, the sum is of what is added up.

    Parameters
    ----------
    total, term : mtf.Tensor of one shape and mesh.
    """
    return Accumulate(total, term).outputs[0]


class Accumulate(mtf.Operation):  # type: ignore[misc]
    """The operation of `accumulate`. It has no gradient."""

    def __init__(self, total: Tensor, term: Tensor) -> None:
        super().__init__([total, term], name="accumulate")
        self._outputs = [mtf.Tensor(self, total.shape, total.dtype)]

    @property
    def has_gradient(self) -> bool:
        return False


@lower_operation.register(Accumulate)
def _lower_accumulate(operation: Accumulate, lowering: Lowering) -> None:
    impl = lowering.mesh_impl(operation)
    terms = [_as_far_as_reduced(lowering.tensors[tensor]) for tensor in operation.inputs]
    lowering.set_tensor_lowering(operation.outputs[0], impl.slicewise_delay_allreduce(tf.add, *terms))


def _as_far_as_reduced(term: Any) -> Any:
    """Return a sum that is owed no longer as what it is."""
    owed = isinstance(term, mtf.LazyAllreduceSum) and term._reduced is None
    return term if owed else term.to_laid_out_tensor()
