"""Sums, maxima and minima, over dimensions that may be split into unequal slices."""

from __future__ import annotations

import tensorflow as tf

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.lowering import Lowering, lower_operation


@lower_operation.register(mtf.ops.ReduceOperation)
def _lower_reduction(operation: mtf.Operation, lowering: Lowering) -> None:
    """Reduce each slice; the sum over the processors is pending, maxima and minima are combined."""
    impl, x, y = lowering.mesh_impl(operation), operation.inputs[0], operation.outputs[0]
    kind = operation._reduction_fn_string
    reduce, axes = mtf.ops._reduce_helper(x.shape, y.shape, impl.tensor_layout(x), kind)
    slices = impl.slicewise(reduce, lowering.tensors[x], nothing=_of_nothing(kind, x.dtype))
    if axes and kind != "SUM":
        slices = impl.allreduce(slices, axes, kind)
    lowering.set_partial_sums(y, slices, axes if kind == "SUM" else [])


def _of_nothing(kind: str, dtype: tf.DType) -> float:
    """Return the reduction of no elements: the neutral element of the combination."""
    if kind == "SUM":
        return 0
    lowest, highest = (-float("inf"), float("inf")) if dtype.is_floating else (dtype.min, dtype.max)
    return lowest if kind == "MAX" else highest
