"""While loops, whose inner operations are lowered by the same dispatch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.lowering import Lowering, lower_operation

Slices = list[tf.Tensor]


@lower_operation.register(mtf.WhileLoopOperation)
def _lower_loop(operation: mtf.Operation, lowering: Lowering) -> None:
    """Loop over all processors' slices together; sums that are only accumulated are completed after the loop."""
    impl, inside = lowering.mesh_impl(operation), list(_inner(operation))
    for inner in inside:
        if isinstance(inner, mtf.Assign):
            fault = f"operation {operation.name} (WhileLoopOperation) assigns to {inner.variables[0].name} in its body"
            raise LayoutError(f"{fault}, variables are read once a step", "make it a loop variable (leave num_loop_vars out)")
    for tensor in dict.fromkeys(tensor for inner in inside for tensor in _read_by(inner)):
        if tensor in lowering.tensors:
            lowering.slices(tensor)  # does pending all-reduces outside the loop, where other operations may use them too
    carried = len(operation.inputs)
    sum_axes: list[Any] = [()] * len(operation.outputs)

    def condition(*values: Slices) -> tf.Tensor:
        _lower_inside(operation._cond_ops, operation._cond_inputs, values, lowering)
        return lowering.slices(operation._cond_output)[0]

    def body(*values: Slices) -> list[Slices]:
        _lower_inside(operation._body_ops, operation._body_inputs, values, lowering)
        following = []
        for index, tensor in enumerate(operation._body_outputs):
            lowered = lowering.tensors[tensor]
            if index < carried:
                following.append(lowering.slices(tensor))
                continue
            if isinstance(lowered, mtf.LazyAllreduceSum):
                sum_axes[index], lowered = lowered.mesh_axes, lowered.laid_out_input
            pieces = lowered.to_laid_out_tensor().tensor_list
            following.append(impl.on_processors(lambda p, new=pieces, old=values[index]: old[p] + new[p]).tensor_list)
        return following

    start = [lowering.slices(tensor) for tensor in operation.inputs]
    start += [_zeros(tensor, lowering) for tensor in operation._body_outputs[carried:]]
    final_values = tf.compat.v1.while_loop(condition, body, start, back_prop=False, **operation._tf_kwargs)
    for tensor, slices, axes in zip(operation.outputs, final_values, sum_axes):
        lowering.set_partial_sums(tensor, impl.LaidOutTensor(list(slices)), axes)


def _inner(operation: mtf.Operation) -> Iterator[Any]:
    """Yield the operations in a loop, and those in loops in it."""
    for inner in [*operation._cond_ops, *operation._body_ops]:
        yield inner
        if isinstance(inner, mtf.WhileLoopOperation):
            yield from _inner(inner)


def _read_by(operation: mtf.Operation) -> list[Any]:
    """Return all tensors, or operations, that an operation reads or waits for."""
    return [*operation.inputs, *getattr(operation, "_dependencies", []), *getattr(operation, "_data", [])]


def _lower_inside(operations: Iterable[mtf.Operation], placeholders: Sequence[Any], values: Sequence[Slices], lowering: Lowering) -> None:
    for tensor, slices in zip(placeholders, values):
        lowering.set_tensor_lowering(tensor, lowering.mesh_impl(tensor).LaidOutTensor(list(slices)))
    for operation in operations:
        with tf.name_scope(operation.name):
            lower_operation(operation, lowering)


def _zeros(tensor: Tensor, lowering: Lowering) -> Slices:
    impl = lowering.mesh_impl(tensor)
    slices: Slices = impl.on_processors(lambda pnum: tf.zeros(impl.processor_shape(tensor.shape, pnum), tensor.dtype)).tensor_list
    return slices
