"""Differentiable functions of slices whose backward pass uses what the forward pass computed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

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
        differentiate = functools.partial(_differentiate, forward_of, graded)
        shapes = [tensor.shape for tensor in operation.outputs]
        return input_gradients(name, differentiate, inputs, floating, shapes, [*(dys[i] for i in graded), *inputs], unsplit, operation)

    return list(Local(name, forward, inputs, outputs, unsplit=unsplit, gradient=gradient).outputs)


def _differentiate(
    forward_of: dict[int, tuple[list[tf.Tensor], list[tf.Tensor]]], graded: Sequence[int], members: Sequence[int]
) -> Callable[..., Sequence[tf.Tensor]]:
    """Return the function that computes the gradients of some inputs on one processor."""

    def differentiate(p: Processor, *slices: tf.Tensor) -> Sequence[tf.Tensor]:
        copies, results = forward_of[p.pnum]
        xs = [copies[i] for i in members]
        pieces = tf.gradients([results[i] for i in graded], xs, slices[: len(graded)], unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return [tf.convert_to_tensor(piece) for piece in pieces]  # those of rows that were gathered are sparse

    return differentiate
