"""What is random, printed, waited for, repeated, or imported in slices."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from hetero_mtf.mesh import UnevenMeshImpl, lower
from hetero_mtf.mesh.compat import mtf
from tests.mesh.running import implementation, quick, run, shape, stock_and_uneven
from tests.mesh.stock.cases import Tensors

A, C = mtf.Dimension("a", 4), mtf.Dimension("c", 6)
LAYOUTS = [
    implementation([("p", 1)], {"c": "p"}, {"c": (6,)}),
    implementation([("p", 2)], {"c": "p"}),
    implementation([("p", 3)], {"c": "p"}, {"c": (5, 0, 1)}),
    implementation([("p", 2), ("q", 2)], {"a": "p", "c": "q"}, {"a": (3, 1), "c": (2, 4)}),
]


def _everywhere(build: Callable[[Any], Sequence[Any]]) -> list[list[np.ndarray]]:
    """Return what `build` gives on each layout, from one seed; random numbers differ from stock Mesh-TensorFlow's."""
    return stock_and_uneven(build, LAYOUTS)[1]


DRAWS: dict[str, Callable[[Any], Any]] = {
    "uniform": lambda m: mtf.random_uniform(m, [A, C], minval=2.0, maxval=3.0),
    "normal": lambda m: mtf.random_normal(m, [A, C], dtype=tf.float64),
    "integers": lambda m: mtf.random_uniform(m, [A, C], minval=0, maxval=100, dtype=tf.int32),
    "truncated": lambda m: mtf.RandomOperation(m, mtf.Shape([A, C]), tf.random.truncated_normal).outputs[0],
    "without a stateless counterpart": lambda m: mtf.RandomOperation(m, mtf.Shape([A, C]), tf.random.gamma, alpha=2.0).outputs[0],
}


@pytest.mark.fast("without a stateless counterpart")
@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_random_numbers_do_not_depend_on_the_layout(draw: Callable[[Any], Any]) -> None:
    (first,), *others = _everywhere(lambda mesh: [draw(mesh)])
    assert len(np.unique(first)) > 15
    for (found,) in others:
        np.testing.assert_array_equal(found, first)


@pytest.mark.slow
def test_dropout_does_not_depend_on_the_layout() -> None:
    def build(mesh: Any) -> Sequence[Any]:
        x = mtf.ones(mesh, [A, C], tf.float64)
        return [mtf.dropout(x, True, rate=0.5), mtf.dropout(x, True, keep_prob=0.5, noise_shape=[C]), mtf.dropout(x, False, rate=0.5)]

    first, *others = _everywhere(build)
    assert {0.0, 2.0} == set(np.unique(first[0])) == set(np.unique(first[1])) and (first[2] == 1).all()
    assert (first[1] == first[1][0]).all()
    for found in others:
        for array, reference in zip(found, first, strict=True):
            np.testing.assert_array_equal(array, reference)


def _steps(impl: UnevenMeshImpl, seed: int) -> list[np.ndarray]:
    random.seed(seed)
    with tf.Graph().as_default(), tf.compat.v1.Session(config=quick()) as session:
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        noise = mtf.random_uniform(mesh, [C])
        fetch = lower(graph, {mesh: impl}).export_to_tf_tensor(noise)
        return [session.run(fetch) for _ in range(3)]


def test_each_step_draws_anew_and_the_same_seed_the_same() -> None:
    one, again, other = _steps(LAYOUTS[2], 5), _steps(LAYOUTS[0], 5), _steps(LAYOUTS[2], 6)
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one[0], one[1]) and not np.array_equal(one, other)


@pytest.mark.parametrize("sizes", [(5, 1), (0, 6)], ids=str)
def test_a_print_is_printed_whichever_processor_is_empty(sizes: tuple[int, ...], capfd: Any) -> None:
    impl = implementation([("p", 2)], {"c": "p"}, {"c": sizes})
    build = lambda mesh, x: [mtf.relu(mtf.Print(x, [mtf.reduce_sum(x)], "the sum is"))]  # noqa: E731
    run(build, [(np.ones(6), shape(c=6))], impl)
    assert capfd.readouterr().err.count("the sum is") == 1


def test_a_tensor_depends_on_operations_of_any_kind() -> None:
    def build(mesh: Any) -> Sequence[Any]:
        values = Tensors(mesh)
        total = mtf.reduce_sum(values.x)
        return [mtf.depend(mtf.reduce_sum(values.z), [total.operation, values.y, mtf.Print(total, [], "", first_n=0).operation])]

    with tf.Graph().as_default(), tf.compat.v1.Session(config=quick()) as session:
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        (tensor,) = build(mesh)
        lowering = lower(graph, {mesh: LAYOUTS[2]})
        found = session.run(lowering.export_to_tf_tensor(tensor))
    np.testing.assert_allclose(found, Tensors.array("z").sum())


def test_slices_are_imported_as_they_lie() -> None:
    impl = LAYOUTS[2]
    whole = np.arange(24.0).reshape(4, 6)
    with tf.Graph().as_default(), tf.compat.v1.Session(config=quick()) as session:
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        slices = impl.LaidOutTensor([tf.constant(piece) for piece in np.split(whole, [5, 5], axis=1)])
        tensor = mtf.import_laid_out_tensor(mesh, slices, [A, C]) * 2.0
        found = session.run(lower(graph, {mesh: impl}).export_to_tf_tensor(tensor))
    np.testing.assert_array_equal(found, whole * 2)


def test_what_is_fed_in_may_have_an_unknown_shape() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session(config=quick()) as session:
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        fed = tf.compat.v1.placeholder(tf.float64, [None, 6])
        total = mtf.reduce_sum(mtf.import_tf_tensor(mesh, fed, [A, C]) * mtf.import_tf_tensor(mesh, fed, [A, mtf.Dimension("c", 6)]))
        fetch = lower(graph, {mesh: LAYOUTS[2]}).export_to_tf_tensor(total)
        assert session.run(fetch, {fed: np.ones((4, 6))}) == 24


def test_a_function_of_slices_may_hide_its_shape() -> None:
    hide = lambda x: tf.compat.v1.placeholder_with_default(x * 2.0, [None, None])  # noqa: E731
    impl = implementation([("p", 2)], {"c": "p"}, {"c": (5, 1)})
    dims = shape(a=4, c=6)
    build = lambda mesh, x: [mtf.reshape(mtf.slicewise(hide, [x], splittable_dims=dims.dims), shape(all=24))]  # noqa: E731
    (found,) = run(build, [(np.ones((4, 6)), dims)], impl)
    np.testing.assert_array_equal(found, np.full(24, 2.0))


def test_a_gradient_holds_the_inputs_of_a_function_apart() -> None:
    """Stock Mesh-TensorFlow counts x twice here: through its square within TensorFlow, and again itself."""

    def build(mesh: Any) -> Sequence[Any]:
        x = Tensors(mesh).x
        y = mtf.cwise(lambda a, b: a * b, [x, mtf.square(x)])
        z = mtf.cwise(lambda a, b: a * b, [x, x])
        return [*mtf.gradients([y], [x]), *mtf.gradients([z], [x])]

    x = Tensors.array("x")
    for cubic, quadratic in _everywhere(build):
        np.testing.assert_allclose(cubic, 3 * x**2, rtol=1e-12)
        np.testing.assert_allclose(quadratic, 2 * x, rtol=1e-12)


@pytest.mark.slow
def test_a_sum_that_is_read_in_a_loop_and_after_it_is_completed_once() -> None:
    def build(mesh: Any) -> Sequence[Any]:
        x = Tensors(mesh).x
        total = mtf.reduce_sum(x, reduced_dim=C)
        inner = lambda i, y: [i + 1, y + total]  # noqa: E731
        start = mtf.constant(mesh, 0, dtype=tf.int32)

        def outer(i: Any, y: Any) -> Any:
            return [i + 1, mtf.while_loop(lambda j, z: mtf.less(j, 2), inner, [start, mtf.depend(y, [total])])[1]]

        return [mtf.while_loop(lambda i, y: mtf.less(i, 3), outer, [start, mtf.zeros_like(total)])[1], total]

    for looped, total in _everywhere(build):
        np.testing.assert_allclose(looped, 6 * total, rtol=1e-12)


@pytest.mark.slow
def test_a_batch_of_unequal_slices_is_trained_in_microbatches_of_unequal_slices() -> None:
    batch, inputs = mtf.Dimension("batch", 4), mtf.Dimension("inputs", 6)

    def build(mesh: Any) -> Sequence[Any]:
        weights = mtf.get_variable(mesh, "w", [inputs], tf.float64, initializer=tf.compat.v1.ones_initializer())

        def model(features: Any) -> Any:
            y = mtf.sin(mtf.einsum([features["x"], weights], reduced_dims=[inputs]))
            return {"loss": mtf.reduce_sum(mtf.square(y)), "y": y}

        x = mtf.import_tf_tensor(mesh, tf.constant(Tensors.array("x")), [batch, inputs])
        gradients, outputs = mtf.serialize_training_step({"x": x}, model, batch, 2)
        return [*gradients, outputs["loss"], outputs["y"]]

    impl = implementation([("p", 2)], {"batch": "p"}, {"batch": [(3, 1), (2, 0)]})
    expected, (found,) = stock_and_uneven(build, [impl])
    for array, reference in zip(found, expected, strict=True):
        np.testing.assert_allclose(array, reference, rtol=1e-12)


@pytest.mark.slow
def test_greedy_decoding_gives_what_one_processor_gives() -> None:
    batch, length = mtf.Dimension("a", 4), mtf.Dimension("length", 5)

    def build(mesh: Any) -> Sequence[Any]:
        table = mtf.import_tf_tensor(mesh, tf.constant(np.random.default_rng(3).normal(size=(6, 6)), tf.float32), "before:6;c:6")

        def logits(step: Any, ids: Any, states: Any) -> Any:
            last = mtf.gather(ids, mtf.maximum(step - 1, 0), length)
            return mtf.gather(table, last, mtf.Dimension("before", 6)), list(states)

        start = mtf.import_tf_tensor(mesh, tf.constant([[i + 1, 0, 0, 0, 0] for i in range(4)]), [batch, length])
        return [mtf.beam_search.greedy_decode(logits, start, 0.0, initial_states=[])]

    expected, found = stock_and_uneven(build, LAYOUTS[1:])
    assert (expected[0][:, 1:] > 0).any()
    for (ids,) in found:
        np.testing.assert_array_equal(ids, expected[0])
