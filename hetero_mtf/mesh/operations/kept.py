"""Differentiable functions of slices whose backward pass uses what the forward pass computed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations.compute import input_gradients
from hetero_mtf.mesh.operations.local import Local, Processor

Function = Callable[..., Sequence[tf.Tensor]]


def compute_kept(
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
    kept: dict[int, tuple[list[tf.Tensor], list[tf.Tensor]]] = {}

    def forward(p: Processor, *slices: tf.Tensor) -> Sequence[tf.Tensor]:
        copies = [tf.identity(piece) for piece in slices]
        results = list(function(p, *copies))
        kept[p.pnum] = copies, results
        return results

    def gradient(operation: Local, *dys: Tensor | None) -> Sequence[Tensor | None]:
        given = [i for i, dy in enumerate(dys) if dy is not None and outputs[i][1].is_floating]
        wanted = [i for i, x in enumerate(inputs) if x.dtype.is_floating]
        differentiate = functools.partial(_differentiate, kept, given)
        shapes = [tensor.shape for tensor in operation.outputs]
        return input_gradients(name, differentiate, inputs, wanted, shapes, [*(dys[i] for i in given), *inputs], unsplit, operation)

    return list(Local(name, forward, inputs, outputs, unsplit=unsplit, gradient=gradient).outputs)


def _differentiate(
    kept: dict[int, tuple[list[tf.Tensor], list[tf.Tensor]]], given: Sequence[int], members: Sequence[int]
) -> Callable[..., Sequence[tf.Tensor]]:
    """Return the function that computes the gradients of some inputs on one processor."""

    def differentiate(p: Processor, *slices: tf.Tensor) -> Sequence[tf.Tensor]:
        copies, results = kept[p.pnum]
        wanted = [copies[i] for i in members]
        pieces = tf.gradients([results[i] for i in given], wanted, slices[: len(given)], unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return [tf.convert_to_tensor(piece) for piece in pieces]  # those of rows that were gathered are sparse

    return differentiate
