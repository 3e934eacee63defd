"""Sums of sums: two tensors whose all-reduce is still owed are added first and reduced once."""

from __future__ import annotations

from typing import Any

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.lowering import Lowering, lower_operation


@lower_operation.register(mtf.AddOperation)
def _lower_add(operation: Any, lowering: Lowering) -> None:
    """Add partial sums processor by processor where both are owed along the same mesh axes; else as stock does.

    The gradients that meet where a tensor has several readers, or a weight several uses, then need one all-reduce together.
    """
    owed = [lowering.tensors[tensor] for tensor in operation.inputs]
    shapes = [tensor.shape for tensor in (*operation.inputs, *operation.outputs)]
    lazy = all(isinstance(slices, mtf.LazyAllreduceSum) and slices._reduced is None for slices in owed)
    if not lazy or len(owed) != 2 or any(shape != shapes[0] for shape in shapes) or list(owed[0].mesh_axes) != list(owed[1].mesh_axes):
        operation.lower(lowering)
        return
    impl = lowering.mesh_impl(operation)
    parts = [slices.laid_out_input.tensor_list for slices in owed]
    total = impl.on_processors(lambda pnum: parts[0][pnum] + parts[1][pnum])
    lowering.set_tensor_lowering(operation.outputs[0], mtf.LazyAllreduceSum(impl, total, owed[0].mesh_axes))
