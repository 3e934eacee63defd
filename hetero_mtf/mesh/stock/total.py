"""Sums of sums: two tensors whose all-reduces are pending are added first and reduced once."""

from __future__ import annotations

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.implementation import is_pending_sum
from hetero_mtf.mesh.lowering import Lowering, lower_operation


@lower_operation.register(mtf.AddOperation)
def _lower_add(operation: mtf.Operation, lowering: Lowering) -> None:
    """Add partial sums on each processor where both are pending along the same mesh axes; else as stock does.

    The gradients of a tensor with several readers, or of a weight with several uses, then need one all-reduce together.
    """
    terms = [lowering.tensors[tensor] for tensor in operation.inputs]
    shapes = [tensor.shape for tensor in (*operation.inputs, *operation.outputs)]
    pending = all(map(is_pending_sum, terms))
    if (
        not pending
        or len(terms) != 2
        or any(shape != shapes[0] for shape in shapes)
        or list(terms[0].mesh_axes) != list(terms[1].mesh_axes)
    ):
        operation.lower(lowering)
        return
    impl = lowering.mesh_impl(operation)
    parts = [slices.laid_out_input.tensor_list for slices in terms]
    total = impl.on_processors(lambda pnum: parts[0][pnum] + parts[1][pnum])
    lowering.set_partial_sums(operation.outputs[0], total, terms[0].mesh_axes)
