"""Histories: the last tensors of one kind, kept on the processors of a mesh from step to step.

A history is a queue of fixed length on every processor: each step takes the oldest tensor out and puts its own in, after all reads of
the step. Queues hold tensors by reference (TensorFlow's staging areas), so nothing is copied.

With z_t what step t writes and n the length, a queue holds z_{t-n}, ..., z_{t-1} before step t, the oldest at place 0; zeros stand for
steps before the first. So z_{t-a}, of age a, is at place n - a while step t reads, 1 <= a <= n; after the write it is at place n - a - 1.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl
from hetero_mtf.mesh.lowering import Lowering, lower_operation
from hetero_mtf.mesh.operations.overlapping_calls import CallOrder


@dataclasses.dataclass(frozen=True)
class _Queue:
    """The queue of one history on one processor.

    Parameters
    ----------
    container, name : of the staging area.
    device : TensorFlow device string.
    shape, dtype : of each tensor.
    length : tensors that it holds between steps.
    """

    container: str
    name: str
    device: str
    shape: tuple[int, ...]
    dtype: tf.DType
    length: int

    def peek(self, index: int) -> tf.Tensor:
        """Return the tensor at a place, 0 for the oldest."""
        return self._shaped(tf.raw_ops.StagePeek(index=index, **self._area))

    def shift(self, value: tf.Tensor) -> tf.Operation:
        """Take out the oldest tensor, and put in another one."""
        # out before in: the queue never holds more than its length
        with tf.control_dependencies(tf.raw_ops.Unstage(**self._area)):
            return self._put(value)

    def fill(self, zero: tf.Tensor) -> tf.Operation:
        """Take out all tensors, and put in zeros; `zero` as for `Histories.fill`."""
        last, zeros = tf.raw_ops.StageClear(**self._area), tf.fill(self.shape, tf.cast(zero, self.dtype))
        for _ in range(self.length):
            # chained: only the last put is returned and run, so it has to wait for all before it
            with tf.control_dependencies([last]):
                last = self._put(zeros)
        return last

    @property
    def _area(self) -> dict[str, Any]:
        return {"dtypes": [self.dtype], "container": self.container, "shared_name": self.name}

    def _put(self, value: tf.Tensor) -> tf.Operation:
        return tf.raw_ops.Stage(values=[value], container=self.container, shared_name=self.name)

    def _shaped(self, values: Any) -> tf.Tensor:
        return tf.ensure_shape(values[0], self.shape)


class Histories:
    """The queues of all histories of one trainer.

    Parameters
    ----------
    container : resource container on every server, so that several trainers do not share them.

    Attributes
    ----------
    call_order : by which session calls that overlap follow each other.
    """

    def __init__(self, container: str) -> None:
        self.container = container
        self.call_order = CallOrder(container)
        self._generation = 0
        self._queues: dict[str, _Queue] = {}
        self._filled: set[str] = set()

    def queue(self, name: str, impl: UnevenMeshImpl, pnum: int, shape: mtf.Shape, dtype: tf.DType, length: int) -> _Queue:
        """Return the queue of a history on a processor, created on first use."""
        own = f"{name}/{self._generation}/{pnum}"
        pieces = tuple(impl.processor_shape(shape, pnum))
        return self._queues.setdefault(own, _Queue(self.container, own, impl.devices[pnum], pieces, dtype, length))

    def fill(self, zero: tf.Tensor) -> list[tf.Operation]:
        """Return operations, in the present TensorFlow graph, that fill the queues created since the last call with zeros.

        Where these are the first, they let the first session call begin.

        Parameters
        ----------
        zero : () placeholder, fed with 0: TensorFlow computes constants when it compiles a graph, and keeps several copies of them.
        """
        fresh = [name for name in self._queues if name not in self._filled]
        self._filled.update(fresh)
        operations = self.call_order.begin(self.devices)
        for queue in map(self._queues.__getitem__, fresh):
            with tf.device(queue.device):
                operations.append(queue.fill(zero))
        return operations

    @property
    def devices(self) -> list[str]:
        """TensorFlow devices that have a queue."""
        return list(dict.fromkeys(queue.device for queue in self._queues.values()))

    def forget(self) -> None:
        """Begin again with other queues; programs that were built before must not be run again."""
        self._generation += 1
        self._queues.clear()
        self._filled.clear()
        self.call_order.forget()


class History:
    """One history.

    Parameters
    ----------
    mesh : mtf.Mesh of the tensors.
    histories : where its queues are.
    name : its name there.
    shape : mtf.Shape of one tensor.
    dtype : its tf.DType.
    length : tensors that it holds between steps, at least 1.
    """

    def __init__(self, mesh: mtf.Mesh, histories: Histories, name: str, shape: mtf.Shape, dtype: tf.DType, length: int) -> None:
        self.mesh, self.name = mesh, name
        self.shape, self.dtype, self.length = shape, dtype, length
        self.reads: list[HistoryRead] = []
        self._histories = histories

    def read(self, age: int) -> Tensor:
        """Return the tensor that a step before this one wrote.

        Parameters
        ----------
        age : how many steps before this one, from 1 to the length.
        """
        self.reads.append(HistoryRead(self, age))
        return self.reads[-1].outputs[0]

    def write(self, value: Tensor) -> HistoryWrite:
        """Return the operation that keeps a tensor, after all reads of this step.

        Parameters
        ----------
        value : mtf.Tensor of the history's shape.
        """
        return HistoryWrite(self, value)

    def queue(self, impl: UnevenMeshImpl, pnum: int) -> _Queue:
        """Return its queue on a processor."""
        return self._histories.queue(self.name, impl, pnum, self.shape, self.dtype, self.length)


class HistoryRead(mtf.Operation):
    """The operation of `History.read`."""

    def __init__(self, history: History, age: int) -> None:
        super().__init__([], mesh=history.mesh, name="history_read")
        self.history, self.age = history, age
        self._outputs = [mtf.Tensor(self, history.shape, history.dtype)]

    @property
    def has_gradient(self) -> bool:
        return False


@lower_operation.register(HistoryRead)
def _lower_read(operation: HistoryRead, lowering: Lowering) -> None:
    impl, history = lowering.mesh_impl(operation), operation.history

    def read(pnum: int) -> tf.Tensor:
        queue = history.queue(impl, pnum)
        with lowering.after_call(operation, pnum):
            # empty slices are never put in, see _lower_write; place 0 is the oldest, whose age is the length
            return tf.zeros(queue.shape, queue.dtype) if 0 in queue.shape else queue.peek(history.length - operation.age)

    lowering.set_tensor_lowering(operation.outputs[0], impl.on_processors(read))


class HistoryWrite(mtf.Operation):
    """The operation of `History.write`."""

    def __init__(self, history: History, value: Tensor) -> None:
        super().__init__([value], mesh=history.mesh, name="history_write")
        self.history = history

    @property
    def has_gradient(self) -> bool:
        return False


@lower_operation.register(HistoryWrite)
def _lower_write(operation: HistoryWrite, lowering: Lowering) -> None:
    impl, history = lowering.mesh_impl(operation), operation.history
    values = lowering.slices(operation.inputs[0])
    # reads that nothing needs were not lowered
    reads = [lowering.slices(read.outputs[0]) for read in history.reads if read.outputs[0] in lowering.tensors]
    writes: list[list[tf.Operation]] = []
    for pnum, device in enumerate(impl.devices):
        queue = history.queue(impl, pnum)
        # a shift moves every tensor to another place, so all peeks of the step come first
        with tf.device(device), lowering.after_call(operation, pnum), tf.control_dependencies([pieces[pnum] for pieces in reads]):
            writes.append([] if 0 in queue.shape else [queue.shift(values[pnum])])
    lowering.writes[operation] = writes
    lowering.operations[operation] = [write for group in writes for write in group]
