"""The operation all of this project's own operations are: a TensorFlow function of each processor's slices."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.lowering import Lowering, lower_operation

Shape = Any
Tensor = Any
Gradient = Callable[..., Sequence[Any]]


@dataclasses.dataclass(frozen=True)
class Processor:
    """Where a local function runs.

    Parameters
    ----------
    pnum : number of the processor in its mesh.
    shapes : (outputs,) the static shape of each output's slice on it.
    begins : (outputs,) where that slice begins in the whole tensor.
    """

    pnum: int
    shapes: tuple[list[int], ...]
    begins: tuple[list[int], ...]


class Local(mtf.Operation):  # type: ignore[misc]
    """A function applied to every processor's slices, with sums over laid-out dimensions owed.

    Parameters
    ----------
    name : operation name.
    function : (processor, *slices) -> slice, or a tuple of slices for several outputs.
    inputs : (inputs,) mtf.Tensor.
    outputs : (outputs,) pairs of mtf.Shape and tf.DType.
    summed : dimensions the function sums over: where one is laid out, the slices are partial sums
        and the all-reduce is owed (lazily) to whoever reads them.
    whole : dimensions that the function needs whole; laid out, they raise.
    gradient : (operation, *output gradients) -> one gradient (or None) an input. None: no gradient.
    mesh : mesh, needed where there are no inputs.
    after : an operation that each processor is to finish first, if anybody reads its result: what is
        sent on goes first, and is on its way while the rest is computed. On a mesh of several
        processors such late operations run one at a time on each, so that a thread is left to what
        other processors wait for.
    needs : an operation whose function leaves something for this one's besides its outputs.

    Notes
    -----
    A processor with an empty slice on any side does no work: its outputs are zeros. Kernels of
    TensorFlow raise, or even crash, on empty slices.
    """

    waits_for_its_turn = True  # it computes, so it takes its processor's time

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        inputs: Sequence[Tensor],
        outputs: Sequence[tuple[Shape, tf.DType]],
        *,
        summed: Iterable[Any] = (),
        whole: Iterable[Any] = (),
        gradient: Gradient | None = None,
        mesh: Any = None,
        after: Local | None = None,
        needs: Local | None = None,
    ) -> None:
        super().__init__(list(inputs), mesh=mesh, name=name)
        self.after = after
        self.needs = needs
        self.function = function
        self.summed = frozenset(dimension.name for dimension in summed)
        self.whole = frozenset(dimension.name for dimension in whole)
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
    for name in operation.whole:
        if impl.axis_of(name) is not None:
            raise LayoutError(
                f"operation {operation.name} needs dimension {name} whole, it lies on a mesh axis; leave it out of the layout"
            )
    inputs = [lowering.slices(tensor) for tensor in operation.inputs]
    results = []
    for pnum, device in enumerate(impl.devices):
        slices = [pieces[pnum] for pieces in inputs]
        shapes = tuple(impl.processor_shape(tensor.shape, pnum) for tensor in operation.outputs)
        begins = tuple(impl.slice_begin(tensor.shape, pnum) for tensor in operation.outputs)
        with tf.device(device), tf.control_dependencies(_first(operation, lowering, pnum)), lowering.turn(operation, pnum):
            results.append(_apply(operation, Processor(pnum, shapes, begins), slices))
        lowering.made(operation, pnum, results[-1])
    lowering.operations[operation] = results
    if operation.after is not None and lowering.is_read(operation):
        lowering.last_late[operation.mesh] = [operation]
    axes = sorted({axis for name in operation.summed if (axis := impl.axis_of(name)) is not None})
    for index, tensor in enumerate(operation.outputs):
        laid_out = impl.LaidOutTensor([result[index] for result in results])
        lowering.set_tensor_lowering(tensor, mtf.LazyAllreduceSum(impl, laid_out, axes) if axes else laid_out)


def _first(operation: Local, lowering: Lowering, pnum: int) -> Sequence[tf.Tensor]:
    """Return what processor `pnum` has to finish before an operation."""
    if operation.after is None or not lowering.is_read(operation):
        return []
    earlier = [operation.after] if lowering.is_read(operation.after) else []
    if lowering.mesh_impl(operation).size > 1:
        earlier += lowering.last_late.get(operation.mesh, [])
    return [piece for before in earlier for piece in lowering.operations[before][pnum]]


def _apply(operation: Local, processor: Processor, slices: Sequence[tf.Tensor]) -> Sequence[tf.Tensor]:
    extents = [piece.shape.as_list() for piece in slices] + list(processor.shapes)
    if any(0 in extent for extent in extents):
        return [tf.zeros(shape, tensor.dtype) for shape, tensor in zip(processor.shapes, operation.outputs)]
    result = operation.function(processor, *slices)
    return result if isinstance(result, (tuple, list)) else [result]
