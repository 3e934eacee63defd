"""Differentiable functions of slices whose backward pass uses what the forward pass computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations.compute import input_gradients
from hetero_mtf.mesh.operations.local import Local, Processor

Function = Callable[..., Sequence[tf.Tensor]]


def compute_once(
    name: str,
    function: Function,
    inputs: Sequence[Tensor],
    outputs: Sequence[tuple[mtf.Shape, tf.DType]],
    *,
    unsplit: Iterable[mtf.Dimension] = (),
) -> list[Tensor]:
    """Return the outputs of a function of the slices of `inputs`, with its gradients.

    Pending sums are as in `compute`, but here the backward pass differentiates the forward pass itself, so that nothing is computed
    twice, and there may be several outputs. Outputs and inputs that are no floating-point numbers have no gradient.

    Parameters
    ----------
    function : (processor, *slices) -> (outputs,) slices.
    inputs : (inputs,) mtf.Tensor.
    outputs : (outputs,) pairs of mtf.Shape and tf.DType.
    unsplit : dimensions that the function needs whole.
    """
    unsplit = list(unsplit)
    forward_of: dict[int, tuple[list[tf.Tensor], list[tf.Tensor]]] = {}

    def forward(p: Processor, *slices: tf.Tensor) -> Sequence[tf.Tensor]:
        copies = [tf.identity(piece) for piece in slices]
        results = list(function(p, *copies))
        forward_of[p.pnum] = copies, results
        return results

    def gradient(operation: Local, *dys: Tensor | None) -> Sequence[Tensor | None]:
        graded = [i for i, dy in enumerate(dys) if dy is not None and outputs[i][1].is_floating]
        floating = [i for i, x in enumerate(inputs) if x.dtype.is_floating]
        differentiate = _Shared(forward_of, graded, floating).differentiate
        shapes = [tensor.shape for tensor in operation.outputs]
        return input_gradients(name, differentiate, inputs, floating, shapes, [*(dys[i] for i in graded), *inputs], unsplit, operation)

    return list(Local(name, forward, inputs, outputs, unsplit=unsplit, gradient=gradient).outputs)


class _Shared:
    """The gradients of all inputs, which the operations of `input_gradients` take their own from.

    TensorFlow differentiates the function once on each processor: what the gradients have in common, such as the loop of a recurrent
    layer, is neither built nor computed for each of them.

    Parameters
    ----------
    forward_of : number of a processor -> the inputs and outputs of the function there.
    graded : numbers of the outputs that have gradients.
    floating : numbers of the inputs that have them.
    """

    def __init__(
        self, forward_of: Mapping[int, tuple[list[tf.Tensor], list[tf.Tensor]]], graded: Sequence[int], floating: Sequence[int]
    ) -> None:
        self._forward_of, self._graded, self._floating = forward_of, graded, floating
        self._found: dict[int, tuple[Sequence[tf.Tensor], dict[int, tf.Tensor]]] = {}  # with the outputs that were differentiated

    def differentiate(self, members: Sequence[int]) -> Callable[..., Sequence[tf.Tensor]]:
        """Return the function that gives the gradients of some inputs on one processor.

        Parameters
        ----------
        members : numbers of the inputs.
        """

        def gradients(p: Processor, *slices: tf.Tensor) -> Sequence[tf.Tensor]:
            copies, results = self._forward_of[p.pnum]
            differentiated, found = self._found.get(p.pnum, (None, {}))
            if differentiated is not results:  # not yet, or where the graph was lowered before
                found = self._gradients(copies, results, slices[: len(self._graded)])
                self._found[p.pnum] = results, found
            return [tf.identity(found[i]) for i in members]

        return gradients

    def _gradients(self, copies: Sequence[tf.Tensor], results: Sequence[tf.Tensor], dys: Sequence[tf.Tensor]) -> dict[int, tf.Tensor]:
        xs, ys = [copies[i] for i in self._floating], [results[i] for i in self._graded]
        pieces = tf.gradients(ys, xs, dys, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return {i: tf.convert_to_tensor(piece) for i, piece in zip(self._floating, pieces)}  # those of gathered rows are sparse
