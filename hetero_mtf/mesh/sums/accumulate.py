"""Sums of gradients over microbatches: their all-reduces stay pending until the last microbatch."""

from __future__ import annotations

import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.implementation import is_pending_sum
from hetero_mtf.mesh.lowering import Lowering, lower_operation


def accumulate(total: Tensor, term: Tensor) -> Tensor:
    """Return `total` + `term`; where the all-reduces of both are pending, one all-reduce of the sum is pending.

    A term whose all-reduce was done for another operation is added as it is.

    Parameters
    ----------
    total, term : mtf.Tensor of one shape and mesh.
    """
    return Accumulate(total, term).outputs[0]


class Accumulate(mtf.Operation):
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
    lowered = [lowering.tensors[tensor] for tensor in operation.inputs]
    terms = [term if is_pending_sum(term) else term.to_laid_out_tensor() for term in lowered]
    lowering.set_tensor_lowering(operation.outputs[0], impl.slicewise_delay_allreduce(tf.add, *terms))
