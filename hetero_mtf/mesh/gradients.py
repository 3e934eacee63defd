"""Gradients through a part of a Mesh-TensorFlow graph, from given gradients of its outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hetero_mtf.mesh.compat import Tensor, mtf


def gradients(
    ys: Sequence[Tensor],
    grad_ys: Sequence[Tensor],
    xs: Sequence[Tensor],
    operations: Sequence[mtf.Operation],
    began: Callable[[mtf.Operation], None] = lambda operation: None,
) -> list[Tensor | None]:
    """Return the gradient by each of `xs`, None where no y depends on it.

    Parameters
    ----------
    ys : (ys,) mtf.Tensor; one that occurs twice gets the sum of its gradients.
    grad_ys : (ys,) their gradients.
    xs : (xs,) mtf.Tensor.
    operations : the operations between them, each after those it reads; no others are used.
    began : called with each operation before its gradient is built.

    Notes
    -----
    As `mtf.gradients`, without its TensorFlow variable scope for each operation, which takes longer than the gradient. O(operations).
    """
    downstream = set(xs)
    for operation in operations:
        if operation.has_gradient and not downstream.isdisjoint(operation.inputs):
            downstream.update(operation.outputs)
    gradient_of: dict[Tensor, Tensor] = {}
    for y, gradient in zip(ys, grad_ys):
        _add(gradient_of, y, gradient)
    for operation in reversed(operations):
        arrived = [gradient_of.get(output) for output in operation.outputs]
        if not operation.has_gradient or all(gradient is None for gradient in arrived) or downstream.isdisjoint(operation.inputs):
            continue
        began(operation)
        for x, gradient in zip(operation.inputs, operation.gradient(arrived)):
            if x in downstream and gradient is not None:
                _add(gradient_of, x, gradient)
    return [gradient_of.get(x) for x in xs]


def _add(gradient_of: dict[Tensor, Tensor], x: Tensor, gradient: Tensor) -> None:
    gradient_of[x] = mtf.add(gradient_of[x], gradient) if x in gradient_of else gradient
