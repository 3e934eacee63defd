"""A function whose gradients share their work: the numbers of one processor, and the work done once on each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.lowering import Lowering
from hetero_mtf.mesh.operations.compute_once import compute_once
from tests.mesh.running import implementation, run, shape, with_gradients

BATCH = 6
DIMENSIONS = [{"batch": BATCH, "i": 3}, {"i": 3, "o": 4}, {"o": 4}, {"hidden": 4, "o": 4}]


def looped(_: Any, *tensors: Any) -> list[Any]:
    """Apply a recurrence thrice; each of its inputs lacks other dimensions, so that each gradient has its own pending sums."""

    def function(_: Any, x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, recurrent: tf.Tensor) -> list[tf.Tensor]:
        entering = tf.matmul(x, kernel) + bias
        start = tf.constant(0), tf.zeros_like(entering)
        step = lambda i, state: (i + 1, tf.tanh(entering + tf.matmul(state, recurrent)))  # noqa: E731
        return [tf.while_loop(lambda i, _: i < 3, step, start, maximum_iterations=3)[1]]

    output = mtf.Shape([tensors[0].shape.dims[0], tensors[1].shape.dims[1]])
    return compute_once("recurrence", function, tensors, [(output, tensors[0].dtype)])


@pytest.mark.fast("(4, 2)")
@pytest.mark.parametrize("sizes", [(4, 2), (3, 0, 3)], ids=str)
def test_a_loop_has_one_gradient_on_each_processor_that_has_samples(sizes: tuple[int, ...]) -> None:
    rng, graphs = np.random.default_rng(4), []
    values = [(rng.normal(size=list(dims.values())), shape(**dims)) for dims in DIMENSIONS]

    def build(mesh: Any, *tensors: Any) -> Any:
        graphs.append(tf.compat.v1.get_default_graph())
        return with_gradients(looped)(mesh, *tensors)

    expected = run(build, values, implementation([("p", 1)], {}))
    found = run(build, values, implementation([("p", len(sizes))], {"batch": "p"}, {"batch": sizes}))
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    loops = [sum(operation.type in ("While", "StatelessWhile") for operation in graph.get_operations()) for graph in graphs]
    assert loops == [2, 2 * np.count_nonzero(sizes)]  # forward and backward


def test_a_graph_that_is_lowered_again_has_gradients_of_its_own() -> None:
    rng = np.random.default_rng(5)
    values = [(rng.normal(size=list(dims.values())), shape(**dims)) for dims in DIMENSIONS]
    expected = run(with_gradients(looped), values, implementation([("p", 1)], {}))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        outputs = list(with_gradients(looped)(mesh, *(mtf.import_tf_tensor(mesh, tf.constant(x), dims) for x, dims in values)))
        halves = implementation([("p", 2)], {"batch": "p"}, {"batch": (4, 2)})
        for impl in (implementation([("p", 1)], {}), halves):
            lowering = Lowering(graph, {mesh: impl})
            for a, b in zip(expected, session.run([lowering.export_to_tf_tensor(y) for y in outputs]), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
