"""The general differentiable operation: any TensorFlow function of slices, with gradients derived by TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.mesh.operations.local import Gradient, Local, Processor

Tensor = Any
Function = Callable[..., tf.Tensor]


def compute(name: str, function: Function, inputs: Sequence[Tensor], output: Any, *, unsplit: Iterable[Any] = ()) -> Tensor:
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

    Notes
    -----
    The gradient calls the function again on each processor; TensorFlow runs only the operations that the gradient needs.
    """
    unsplit = list(unsplit)
    names = {dimension.name for dimension in output.dims}
    summed = [dimension for tensor in inputs for dimension in tensor.shape.dims if dimension.name not in names]

    def forward(_: Processor, *slices: tf.Tensor) -> tf.Tensor:
        return function(*slices)

    gradient = _gradient(name, function, inputs, output, unsplit)
    return Local(name, forward, inputs, [(output, inputs[0].dtype)], summed=summed, unsplit=unsplit, gradient=gradient).outputs[0]


def _gradient(name: str, function: Function, inputs: Sequence[Tensor], output: Any, unsplit: Sequence[Any]) -> Gradient:
    """Return the gradient of `compute`: inputs with the same pending sums share one operation; that of the first input runs first."""
    everything = {d.name: d for shape in (output, *(x.shape for x in inputs)) for d in shape.dims}
    groups: dict[frozenset[str], list[int]] = {}
    for index, x in enumerate(inputs):
        groups.setdefault(frozenset(everything) - {d.name for d in x.shape.dims}, []).append(index)

    def gradient(_: Local, dy: Tensor) -> Sequence[Tensor]:
        input_gradients: dict[int, Tensor] = {}
        first = None
        for summed, members in groups.items():
            operation = Local(
                f"{name}_gradient",
                _differentiate(function, members),
                [*inputs, dy],
                [(inputs[i].shape, inputs[i].dtype) for i in members],
                summed=[everything[d] for d in summed],
                unsplit=unsplit,
                after=first,
            )
            first = first or operation
            input_gradients.update(zip(members, operation.outputs))
        return [input_gradients[index] for index in range(len(inputs))]

    return gradient


def _differentiate(function: Function, members: Sequence[int]) -> Callable[..., Sequence[tf.Tensor]]:
    """Return the function that computes the gradients of some of the inputs on one processor."""

    def differentiate(_: Processor, *slices: tf.Tensor) -> Sequence[tf.Tensor]:
        *values, dy = slices
        copies = [tf.identity(value) for value in values]
        wanted = [copies[i] for i in members]
        return tf.gradients(function(*copies), wanted, dy, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    return differentiate
