"""The general differentiable operation: any TensorFlow function of slices, with gradients derived by TensorFlow."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations.halo import read_again
from hetero_mtf.mesh.operations.local import Gradient, Local, Processor

Function = Callable[..., tf.Tensor]
Renamed = Mapping[str, str]
"""Name of a dimension in slabs of an input -> its name in the output, where a function makes slabs of one from slabs of the other."""

NOT_RENAMED: Renamed = MappingProxyType({})


def compute(
    name: str,
    function: Function,
    inputs: Sequence[Tensor],
    output: mtf.Shape,
    *,
    unsplit: Iterable[mtf.Dimension] = (),
    renamed: Renamed = NOT_RENAMED,
    placed: bool = False,
) -> Tensor:
    """Return a function of the slices of `inputs`, with its gradients.

    The names of the dimensions determine the pending sums over processors: the function itself sums over those that
    the output lacks, and the gradient of an input over those that the input lacks but the others or the output have. So one
    function is correct in every layout of the dimensions that are not in `unsplit`.

    Parameters
    ----------
    function : slices -> slice of the output; where an input dimension is laid out and not in the output, the sum of the
        function's values of the slices must be its value of the whole tensor.
    inputs : (inputs,) mtf.Tensor.
    output : mtf.Shape of the output; its dtype is that of the first input.
    unsplit : dimensions that the function needs whole.
    renamed : dimensions in slabs that have another name in the output.
    placed : whether the function depends on the processor: (number of the processor, *slices) -> slice.

    Notes
    -----
    The gradient calls the function again on each processor; TensorFlow runs only the operations that the gradient needs.
    """
    unsplit = list(unsplit)
    names = {dimension.name for dimension in output.dims}
    summed = [dimension for tensor in inputs for dimension in tensor.shape.dims if renamed.get(dimension.name, dimension.name) not in names]

    def forward(p: Processor, *slices: tf.Tensor) -> tf.Tensor:
        return function(p.pnum, *slices) if placed else function(*slices)

    gradient = _gradient(name, forward, inputs, output, unsplit, renamed)
    return Local(name, forward, inputs, [(output, inputs[0].dtype)], summed=summed, unsplit=unsplit, gradient=gradient).outputs[0]


def _gradient(
    name: str,
    function: Callable[..., tf.Tensor],
    inputs: Sequence[Tensor],
    output: mtf.Shape,
    unsplit: Sequence[mtf.Dimension],
    renamed: Renamed,
) -> Gradient:
    """Return the gradient of `compute`."""

    def gradient(_: Local, dy: Tensor) -> Sequence[Tensor | None]:
        differentiate = functools.partial(_differentiate, function)
        read = [*(read_again(x, dy) for x in inputs), dy]
        return input_gradients(name, differentiate, inputs, range(len(inputs)), [output], read, unsplit, renamed=renamed)

    return gradient


def input_gradients(
    name: str,
    differentiate: Callable[[Sequence[int]], Function],
    inputs: Sequence[Tensor],
    indices: Iterable[int],
    outputs: Sequence[mtf.Shape],
    read: Sequence[Tensor],
    unsplit: Sequence[mtf.Dimension],
    needs: Local | None = None,
    renamed: Renamed = NOT_RENAMED,
) -> list[Tensor | None]:
    """Return the gradient of each input of a function of slices, None of those that are not wanted.

    Inputs with the same pending sums share one operation; that of the first input runs first.

    Parameters
    ----------
    differentiate : numbers of inputs -> function of the slices of `read` that gives their gradients.
    inputs : (inputs,) mtf.Tensor of the function.
    indices : numbers of the inputs whose gradients are wanted.
    outputs : (outputs,) mtf.Shape of the function's outputs.
    read : what the gradients are computed from.
    unsplit : dimensions that they need whole.
    needs : as for `Local`.
    renamed : as for `compute`.
    """
    named = lambda shape: {renamed.get(d.name, d.name): d for d in shape.dims}  # noqa: E731
    everything = {name: d for shape in (*outputs, *(x.shape for x in inputs)) for name, d in named(shape).items()}
    groups: dict[frozenset[str], list[int]] = {}
    for index in indices:
        groups.setdefault(frozenset(everything).difference(named(inputs[index].shape)), []).append(index)
    by_input: dict[int, Tensor] = {}
    first = None
    for summed, members in groups.items():
        operation = Local(
            f"{name}_gradient",
            differentiate(members),
            read,
            [(inputs[i].shape, inputs[i].dtype) for i in members],
            summed=[everything[d] for d in summed],
            unsplit=unsplit,
            after=first,
            needs=needs,
        )
        first = first or operation
        by_input.update(zip(members, operation.outputs))
    return [by_input.get(index) for index in range(len(inputs))]


def _differentiate(function: Callable[..., tf.Tensor], members: Sequence[int]) -> Callable[..., Sequence[tf.Tensor]]:
    """Return the function that computes the gradients of some of the inputs on one processor."""

    def differentiate(p: Processor, *slices: tf.Tensor) -> Sequence[tf.Tensor]:
        *values, dy = slices
        copies = [tf.identity(value) for value in values]
        xs = [copies[i] for i in members]
        return tf.gradients(function(p, *copies), xs, dy, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    return differentiate
