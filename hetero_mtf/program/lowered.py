"""Passes lowered to TensorFlow, and whole tensors and sums of what they compute."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl
from hetero_mtf.mesh.lowering import Lowering
from hetero_mtf.mesh.task_order import TaskOrder
from hetero_mtf.program.passes import TaskGraph


def lowered(
    passes: TaskGraph,
    computed: Sequence[Tensor | mtf.Operation],
    outputs: Sequence[Tensor],
    ordered: bool,
    begun: Mapping[str, tf.Tensor] | None = None,
) -> Lowering:
    """Return the passes lowered to TensorFlow.

    Parameters
    ----------
    passes : passes of all stages.
    computed : tensors and operations that every step computes.
    outputs : tensors that some steps fetch besides.
    ordered : whether every device computes its tasks in order.
    begun : as for `Lowering`.
    """
    impls, devices = {}, {}
    for placed, builder in zip(passes.context.stages, passes.builders):
        stage = placed.stage
        impls[builder.mesh] = UnevenMeshImpl(stage.axes, builder.axes, placed.devices, builder.sizes, placed.collectives)
        devices[builder.mesh] = stage.devices
    order = TaskOrder(passes.task_order, devices, computed) if ordered else None
    return Lowering(passes.graph, impls, [*computed, *outputs], order, passes.sources, begun)


def first_slice(lowering: Lowering, tensor: Tensor) -> tf.Tensor:
    """Return a whole tensor from the first processor.

    Parameters
    ----------
    tensor : mtf.Tensor.
    """
    value = lowering.export_to_tf_tensor(tensor)
    with tf.device(value.device):
        return tf.reshape(value, tensor.shape.to_integer_list)


def total(parts: Sequence[tf.Tensor], weights: Sequence[float], terms: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the weighted sum of the outputs' losses, and of the penalties.

    Parameters
    ----------
    parts : (losses,) the losses of outputs.
    weights : (losses,) factors.
    terms : penalties, and what layers add; at least one where there are no parts.
    """
    first = [*parts, *terms][0]
    with tf.device(first.device):
        weighted = [part if weight == 1.0 else part * tf.constant(weight, part.dtype) for part, weight in zip(parts, weights)]
        return functools.reduce(tf.add, [*weighted, *(tf.cast(term, first.dtype) for term in terms)])
