"""Functions of slices, and their gradients by TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.implementation import is_empty
from hetero_mtf.mesh.lowering import Lowering, lower_operation


@lower_operation.register(mtf.SlicewiseOperation)
def _lower_slicewise(operation: mtf.Operation, lowering: Lowering) -> None:
    """Apply the function where any output slice has elements; empty outputs are zeros."""
    impl = lowering.mesh_impl(operation)
    for tensor in operation.inputs + operation.outputs:
        for dimension in tensor.shape.dims:
            if impl.axis_of(dimension.name) is not None and dimension.name not in operation.splittable_dims:
                fault = f"operation {operation.name} (SlicewiseOperation) needs dimension {dimension.name} whole, it lies on a mesh axis"
                raise LayoutError(fault, "leave it out of the layout, or name it in splittable_dims")
    inputs = [lowering.slices(tensor) for tensor in operation.inputs]

    def apply(pnum: int) -> Sequence[tf.Tensor]:
        shapes = [impl.processor_shape(tensor.shape, pnum) for tensor in operation.outputs]
        if all(0 in shape for shape in shapes):
            return [tf.zeros(shape, tensor.dtype) for shape, tensor in zip(shapes, operation.outputs)]
        result = operation._tf_fn(*(pieces[pnum] for pieces in inputs))
        outputs = result if isinstance(result, (tuple, list)) else [result]
        return [piece if piece.shape.is_fully_defined() else tf.ensure_shape(piece, shape) for piece, shape in zip(outputs, shapes)]

    results = impl.on_processors(apply).tensor_list
    for index, tensor in enumerate(operation.outputs):
        lowering.set_tensor_lowering(tensor, impl.LaidOutTensor([result[index] for result in results]))


@lower_operation.register(mtf.GenericGradOperation)
def _lower_generic_gradient(operation: mtf.Operation, lowering: Lowering) -> None:
    """Differentiate each processor's slices of the outputs by its slices of the inputs.

    The inputs are treated as independent: the gradient through one input to another belongs to that input's own
    operation, and a tensor that is given twice gets its gradient once. Empty slices have no part in it.
    """
    impl = lowering.mesh_impl(operation)
    count = len(operation.outputs)
    slices = [lowering.slices(tensor) for tensor in operation.inputs]
    outputs_end = count + len(operation._forward_op.outputs)

    def differentiate(pnum: int) -> Sequence[tf.Tensor]:
        own = [pieces[pnum] for pieces in slices]
        xs, outputs = own[:count], [(y, dy) for y, dy in zip(own[count:outputs_end], own[outputs_end:]) if not is_empty(y)]
        first = [place for place, x in enumerate(xs) if not is_empty(x) and not any(x is other for other in xs[:place])]
        if not first or not outputs:
            return [tf.zeros(x.shape, x.dtype) for x in xs]
        sources, (ys, dys) = [xs[place] for place in first], zip(*outputs)
        source_gradients = tf.gradients(ys, sources, dys, stop_gradients=sources, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        gradients = dict(zip(first, source_gradients))
        return [gradients[place] if place in gradients else tf.zeros_like(x) for place, x in enumerate(xs)]

    results = impl.on_processors(differentiate).tensor_list
    for index, tensor in enumerate(operation.outputs):
        lowering.set_tensor_lowering(tensor, impl.LaidOutTensor([result[index] for result in results]))
