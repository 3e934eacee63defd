"""Gradients through a part of a Mesh-TensorFlow graph, from gradients that arrive from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hetero_mtf.mesh.compat import mtf

Tensor = Any


def gradients(ys: Sequence[Tensor], grad_ys: Sequence[Tensor], xs: Sequence[Tensor], operations: Sequence[Any]) -> list[Tensor | None]:
    """Return the gradient by each of `xs`, None where no y depends on it.

    Parameters
    ----------
    ys : (ys,) mtf.Tensor; one that stands there twice gets the sum of its gradients.
    grad_ys : (ys,) their gradients.
    xs : (xs,) mtf.Tensor.
    operations : the operations that lie between, each behind those it reads; no others are looked at.

    Notes
    -----
    As `mtf.gradients`, without a TensorFlow variable scope an operation, which takes longer than the gradient. O(operations).
    """
    downstream = set(xs)
    for operation in operations:
        if operation.has_gradient and not downstream.isdisjoint(operation.inputs):
            downstream.update(operation.outputs)
    found: dict[Tensor, Tensor] = {}
    for y, gradient in zip(ys, grad_ys):
        _add(found, y, gradient)
    for operation in reversed(operations):
        arrived = [found.get(output) for output in operation.outputs]
        if not operation.has_gradient or all(gradient is None for gradient in arrived) or downstream.isdisjoint(operation.inputs):
            continue
        for x, gradient in zip(operation.inputs, operation.gradient(arrived)):
            if x in downstream and gradient is not None:
                _add(found, x, gradient)
    return [found.get(x) for x in xs]


def _add(found: dict[Tensor, Tensor], x: Tensor, gradient: Tensor) -> None:
    found[x] = mtf.add(found[x], gradient) if x in found else gradient
