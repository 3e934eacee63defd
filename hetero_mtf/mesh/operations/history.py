"""Histories: the last tensors of one kind, kept on the processors of a mesh from step to step.

A history has one place for each of some successive batches; batch n is at place n mod length. What is read in a step is what earlier steps
wrote: every write of a step waits for the step's reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl, is_empty
from hetero_mtf.mesh.lowering import Lowering, lower_operation
from hetero_mtf.mesh.variables import SliceVariables

Tensor = Any


class History:
    """Places for the tensors of some batches.

    Parameters
    ----------
    mesh : mtf.Mesh of the tensors.
    variables : the handles of its slices, one variable of shape (length, ...) a processor.
    name : name of the variable in `variables`.
    shape : mtf.Shape of one tensor.
    dtype : its tf.DType.
    length : places, at least 1.
    """

    def __init__(self, mesh: Any, variables: SliceVariables, name: str, shape: Any, dtype: tf.DType, length: int) -> None:
        self.mesh, self.variables, self.name = mesh, variables, name
        self.shape, self.dtype, self.length = shape, dtype, length
        self.reads: list[HistoryRead] = []

    def read(self, batch: tf.Tensor) -> Tensor:
        """Return the tensor of a batch that an earlier step wrote.

        Parameters
        ----------
        batch : () integer, number of the batch.
        """
        self.reads.append(HistoryRead(self, batch))
        return self.reads[-1].outputs[0]

    def write(self, value: Tensor, batch: tf.Tensor) -> HistoryWrite:
        """Return the operation that keeps a tensor, after all reads of this step.

        Parameters
        ----------
        value : mtf.Tensor of the history's shape.
        batch : () integer, number of the batch.
        """
        return HistoryWrite(self, value, batch)

    def handles(self, impl: UnevenMeshImpl) -> list[tf.Tensor]:
        """Return the (processors,) handles of its slices."""
        stacked = mtf.Shape([mtf.Dimension("history", self.length), *self.shape.dims])
        return self.variables.handles(self.name, stacked, self.dtype, impl)

    def place(self, batch: tf.Tensor) -> tf.Tensor:
        """Return where a batch is; on the present device."""
        return tf.math.floormod(batch, self.length)


class HistoryRead(mtf.Operation):  # type: ignore[misc]
    """The operation of `History.read`."""

    def __init__(self, history: History, batch: tf.Tensor) -> None:
        super().__init__([], mesh=history.mesh, name="history_read")
        self.history, self.batch = history, batch
        self._outputs = [mtf.Tensor(self, history.shape, history.dtype)]

    @property
    def has_gradient(self) -> bool:
        return False


@lower_operation.register(HistoryRead)
def _lower_read(operation: HistoryRead, lowering: Lowering) -> None:
    impl, history = lowering.mesh_impl(operation), operation.history
    handles = history.handles(impl)

    def read(pnum: int) -> tf.Tensor:
        shape = impl.processor_shape(history.shape, pnum)
        if 0 in shape:
            return tf.zeros(shape, history.dtype)
        piece = tf.raw_ops.ResourceGather(resource=handles[pnum], indices=history.place(operation.batch), dtype=history.dtype)
        return tf.ensure_shape(piece, shape)

    lowering.set_tensor_lowering(operation.outputs[0], impl.on_processors(read))


class HistoryWrite(mtf.Operation):  # type: ignore[misc]
    """The operation of `History.write`."""

    def __init__(self, history: History, value: Tensor, batch: tf.Tensor) -> None:
        super().__init__([*(read.outputs[0] for read in history.reads), value], mesh=history.mesh, name="history_write")
        self.history, self.batch = history, batch

    @property
    def has_gradient(self) -> bool:
        return False


@lower_operation.register(HistoryWrite)
def _lower_write(operation: HistoryWrite, lowering: Lowering) -> None:
    impl, history = lowering.mesh_impl(operation), operation.history
    handles = history.handles(impl)
    *reads, values = [lowering.slices(tensor) for tensor in operation.inputs]
    writes: list[Sequence[Any]] = []
    for pnum, device in enumerate(impl.devices):
        if is_empty(values[pnum]):
            writes.append([])
            continue
        with tf.device(device), tf.control_dependencies([pieces[pnum] for pieces in reads]):
            place = history.place(operation.batch)
            writes.append([tf.raw_ops.ResourceScatterUpdate(resource=handles[pnum], indices=place, updates=values[pnum])])
    lowering.writes[operation] = writes
    lowering.operations[operation] = [write for group in writes for write in group]
