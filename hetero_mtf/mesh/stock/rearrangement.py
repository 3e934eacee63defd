"""Concat, split, stack, unstack, slice and pad: correct on any slices, along dimensions that are whole."""

from __future__ import annotations

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.lowering import Lowering, lower_operation

# Operation -> its attribute with the dimension, or the name of the dimension, that it works along.
_ALONG = {
    mtf.ConcatOperation: "_concat_dim_name",
    mtf.SplitOperation: "_split_dim",
    mtf.StackOperation: "_new_dim",
    mtf.UnstackOperation: "_dim",
    mtf.SliceOperation: "_slice_dim",
    mtf.PadOperation: "_output_dim",
}


def _lower_rearrangement(operation: mtf.Operation, lowering: Lowering) -> None:
    """Lower as Mesh-TensorFlow does, along a dimension that is whole.

    Raises
    ------
    LayoutError
        If it lies on a mesh axis.
    """
    along = getattr(operation, _ALONG[type(operation)])
    name = along if isinstance(along, str) else along.name
    if lowering.mesh_impl(operation).axis_of(name) is not None:
        fault = f"operation {operation.name} ({type(operation).__name__}) works along dimension {name}, which lies on a mesh axis"
        raise LayoutError(fault, "rename it (mtf.rename_dimension) to one that is whole before, and back after")
    operation.lower(lowering)


for _kind in _ALONG:
    lower_operation.register(_kind, _lower_rearrangement)
