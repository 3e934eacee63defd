"""Arrays of a batch of which every processor reads its own part, wherever the batch lies."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeAlias

import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.lowering import Lowering, lower_operation

ReadPart = Callable[[str, Sequence[int], Sequence[int]], tf.Tensor]
"""(device, begins, extents) -> the part of an array, on the device."""


@dataclasses.dataclass(frozen=True)
class BatchArray:
    """An array of a batch, or of a microbatch of it; it stands for a tf.Tensor of the whole.

    Parameters
    ----------
    shape : (samples, ...).
    dtype : of its parts.
    read : makes a part available on a device.
    begin : first sample of the microbatch in the batch.
    """

    shape: tuple[int, ...]
    dtype: tf.DType
    read: ReadPart
    begin: int = 0

    def cut(self, sizes: Sequence[int]) -> list[BatchArray]:
        """Return the arrays of microbatches, in order.

        Parameters
        ----------
        sizes : (microbatches,) samples of each.
        """
        begins = [self.begin + sum(sizes[:number]) for number in range(len(sizes))]
        return [dataclasses.replace(self, shape=(size, *self.shape[1:]), begin=begin) for begin, size in zip(begins, sizes)]


Fed: TypeAlias = tf.Tensor | BatchArray
"""An array of a batch: a placeholder, or one that processors read their parts of."""


def import_batch(mesh: mtf.Mesh, array: Fed, shape: mtf.Shape) -> Tensor:
    """Return an array of the batch as mtf.Tensor.

    Parameters
    ----------
    mesh : mtf.Mesh.
    array : BatchArray, or a tf.Tensor that is sliced where it lies.
    shape : mtf.Shape.
    """
    if isinstance(array, BatchArray):
        return BatchImport(mesh, array, shape).outputs[0]
    return mtf.import_tf_tensor(mesh, array, shape)


class BatchImport(mtf.Operation):
    """The operation of `import_batch`."""

    def __init__(self, mesh: mtf.Mesh, array: BatchArray, shape: mtf.Shape) -> None:
        super().__init__([], mesh=mesh, name="batch")
        self.array = array
        self._outputs = [mtf.Tensor(self, shape, array.dtype)]

    @property
    def has_gradient(self) -> bool:
        return False


@lower_operation.register(BatchImport)
def _lower_batch_import(operation: BatchImport, lowering: Lowering) -> None:
    impl, output, array = lowering.mesh_impl(operation), operation.outputs[0], operation.array

    def part(pnum: int) -> tf.Tensor:
        first, *begins = impl.slice_begin(output.shape, pnum)
        extents = impl.processor_shape(output.shape, pnum)
        if 0 in extents:
            return tf.zeros(extents, array.dtype)
        return array.read(impl.devices[pnum], [array.begin + first, *begins], extents)

    lowering.set_tensor_lowering(output, impl.on_processors(part))
