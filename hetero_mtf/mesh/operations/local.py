"""Local: the operation on which this project's operations are built, a TensorFlow function of each processor's slices."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.implementation import is_empty
from hetero_mtf.mesh.lowering import Lowering, lower_operation

Gradient = Callable[..., Sequence[Tensor | None]]


@dataclasses.dataclass(frozen=True)
class Processor:
    """The processor on which a local function runs.

    Parameters
    ----------
    pnum : number of the processor in its mesh.
    shapes : (outputs,) the static shape of each output's slice on it.
    begins : (outputs,) where that slice begins in the whole tensor.
    device : TensorFlow device string.
    """

    pnum: int
    shapes: tuple[list[int], ...]
    begins: tuple[list[int], ...]
    device: str


class Local(mtf.Operation):
    """A function applied to every processor's slices, with the sums over laid-out dimensions pending.

    Parameters
    ----------
    function : (processor, *slices) -> slice, or a tuple of slices for several outputs.
    inputs : (inputs,) mtf.Tensor.
    outputs : (outputs,) pairs of mtf.Shape and tf.DType.
    summed : dimensions the function sums over: where one is laid out, the slices are partial sums
        and their all-reduce is pending until they are read.
    unsplit : dimensions that the function needs whole; they raise if they are laid out.
    gradient : (operation, *output gradients) -> one gradient (or None) per input. None: no gradient.
    mesh : mesh, needed where there are no inputs.
    after : an operation that each processor finishes first, if its result is read: a result that is
        sent to other processors is computed first, and sent while the rest is computed. On a mesh of
        several processors such late operations run one at a time on each, so that a thread is free
        for results that other processors wait for.
    needs : an operation whose function stores values for this one's function besides its outputs.
    rematerialized : whether backward passes that read an output compute it once more, see `halo.read_again`.

    Notes
    -----
    A processor with an empty input or output slice computes nothing: its outputs are zeros. Kernels of
    TensorFlow raise, or even crash, on empty slices.
    """

    keeps_task_order = True  # its compute is ordered by task

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        inputs: Sequence[Tensor],
        outputs: Sequence[tuple[mtf.Shape, tf.DType]],
        *,
        summed: Iterable[mtf.Dimension] = (),
        unsplit: Iterable[mtf.Dimension] = (),
        gradient: Gradient | None = None,
        mesh: mtf.Mesh | None = None,
        after: Local | None = None,
        needs: Local | None = None,
        rematerialized: bool = False,
    ) -> None:
        super().__init__(list(inputs), mesh=mesh, name=name)
        self.after = after
        self.needs = needs
        self.rematerialized = rematerialized
        self.function = function
        self.summed = frozenset(dimension.name for dimension in summed)
        self.unsplit = frozenset(dimension.name for dimension in unsplit)
        self._gradient = gradient
        self._outputs = [mtf.Tensor(self, shape, dtype, index=i) for i, (shape, dtype) in enumerate(outputs)]

    @property
    def has_gradient(self) -> bool:
        return self._gradient is not None

    def gradient(self, grad_ys: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        assert self._gradient is not None
        return self._gradient(self, *grad_ys)


@lower_operation.register(Local)
def _lower_local(operation: Local, lowering: Lowering) -> None:
    impl = lowering.mesh_impl(operation)
    for name in operation.unsplit:
        if impl.axis_of(name) is not None:
            raise LayoutError(
                f"operation {operation.name} needs dimension {name} whole, it lies on a mesh axis", "leave it out of the layout"
            )
    inputs = [lowering.slices(tensor) for tensor in operation.inputs]
    results = []
    for pnum, device in enumerate(impl.devices):
        slices = [pieces[pnum] for pieces in inputs]
        shapes = tuple(impl.processor_shape(tensor.shape, pnum) for tensor in operation.outputs)
        begins = tuple(impl.slice_begin(tensor.shape, pnum) for tensor in operation.outputs)
        with tf.device(device), tf.control_dependencies(_first(operation, lowering, pnum)), lowering.task_gate(operation, pnum):
            results.append(_apply(operation, Processor(pnum, shapes, begins, device), slices))
        lowering.record_computed(operation, pnum, results[-1])
    lowering.operations[operation] = results
    if operation.after is not None and lowering.is_read(operation):
        lowering.last_delayed[operation.mesh] = [operation]
    axes = sorted({axis for name in operation.summed if (axis := impl.axis_of(name)) is not None})
    for index, tensor in enumerate(operation.outputs):
        lowering.set_partial_sums(tensor, impl.LaidOutTensor([result[index] for result in results]), axes)


def _first(operation: Local, lowering: Lowering, pnum: int) -> Sequence[tf.Tensor]:
    """Return the tensors that processor `pnum` computes before an operation."""
    if operation.after is None or not lowering.is_read(operation):
        return []
    earlier = [operation.after] if lowering.is_read(operation.after) else []
    if lowering.mesh_impl(operation).size > 1:
        earlier += lowering.last_delayed.get(operation.mesh, [])
    return [piece for before in earlier for piece in lowering.operations[before][pnum]]


def _apply(operation: Local, processor: Processor, slices: Sequence[tf.Tensor]) -> Sequence[tf.Tensor]:
    if any(map(is_empty, slices)) or any(0 in shape for shape in processor.shapes):
        return [tf.zeros(shape, tensor.dtype) for shape, tensor in zip(processor.shapes, operation.outputs)]
    result = operation.function(processor, *slices)
    return result if isinstance(result, (tuple, list)) else [result]
