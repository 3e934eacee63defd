"""Variables of Mesh-TensorFlow: one initial value for every layout, read before they are written, trained alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh import UnevenMeshImpl, lower
from hetero_mtf.mesh.compat import mtf
from tests.mesh.running import implementation, quick, shape, stock_and_uneven

tf1 = tf.compat.v1
BATCH, FEATURES, HIDDEN, CLASSES = (mtf.Dimension(*pair) for pair in (("batch", 4), ("features", 5), ("hidden", 6), ("classes", 3)))
LAYOUTS = {
    "one": implementation([("p", 1)], {"hidden": "p"}, {"hidden": (6,)}),
    "even": implementation([("p", 2)], {"hidden": "p"}),
    "uneven": implementation([("p", 3)], {"hidden": "p"}, {"hidden": (4, 0, 2)}),
    "batch": implementation([("p", 2)], {"batch": "p"}, {"batch": (3, 1)}),
    "2x2": implementation([("p", 2), ("q", 2)], {"batch": "p", "hidden": "q"}, {"batch": (1, 3), "hidden": (5, 1)}),
}
X = np.random.default_rng(0).normal(size=(4, 5))
Y = np.random.default_rng(1).normal(size=(4, 3))


def _network(mesh: Any, dtype: tf.DType = tf.float64) -> Any:
    """Return the loss of a two-layer network without biases."""
    settings = {"use_bias": False, "variable_dtype": mtf.VariableDType(dtype, dtype, dtype)}
    x = mtf.import_tf_tensor(mesh, tf.constant(X, dtype), [BATCH, FEATURES])
    hidden = mtf.layers.dense(x, HIDDEN, [FEATURES], activation=mtf.tanh, name="first", **settings)
    y = mtf.layers.dense(hidden, CLASSES, [HIDDEN], name="second", **settings)
    target = mtf.import_tf_tensor(mesh, tf.constant(Y, dtype), [BATCH, CLASSES])
    return mtf.reduce_sum(mtf.square(y - target))


def _train(
    optimizer: Callable[[], Any], impl: UnevenMeshImpl, steps: int, stack: bool = False, dtype: tf.DType = tf.float64
) -> tuple[list[float], list[np.ndarray]]:
    """Return the losses of some steps, and the masters of the trained variables, first as they began, then as they ended."""
    with tf.Graph().as_default(), tf1.Session(config=quick()) as session:
        tf1.set_random_seed(3)
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        loss = _network(mesh, dtype)
        variables = graph.trainable_variables
        updates = optimizer().apply_grads(mtf.gradients([loss], [v.outputs[0] for v in variables]), variables)
        masters = [v.get_master() for v in variables]
        if stack:
            graph.rewrite_stack_variables(mesh_to_impl={mesh: impl})
        lowering = lower(graph, {mesh: impl})
        step = [lowering.export_to_tf_tensor(loss), *(lowering.lowered_operation(update) for update in updates)]
        session.run([tf1.global_variables_initializer(), lowering.initializer])  # the first for Adafactor's global step
        begin = session.run(masters)
        losses = [session.run(step)[0] for _ in range(steps)]
        session.run(lowering.copy_slices_to_masters())
        return losses, [*begin, *session.run(masters)]


def _by_hand(rule: Callable[..., Any], weights: Sequence[np.ndarray], steps: int) -> tuple[list[float], list[np.ndarray]]:
    w, v = [*weights], [np.zeros_like(x) for x in weights]
    losses = []
    for _ in range(steps):
        hidden = np.tanh(X @ w[0])
        error = hidden @ w[1] - Y
        losses.append((error**2).sum())
        gradients = [X.T @ ((2 * error @ w[1].T) * (1 - hidden**2)), hidden.T @ (2 * error)]
        w, v = zip(*(rule(*each) for each in zip(w, v, gradients)))
    return losses, list(w)


RULES = {
    "sgd": (lambda: mtf.optimize.SgdOptimizer(0.05), lambda w, v, g: (w - 0.05 * g, v)),
    # Mesh-TensorFlow's own momentum: the velocity of the step before is applied
    "momentum": (lambda: mtf.optimize.MomentumOptimizer(0.02, 0.9), lambda w, v, g: (w - v, 0.9 * v + 0.02 * g)),
}


@pytest.mark.fast("sgd-one")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rule", RULES)
def test_training_is_what_the_rule_says(rule: str, layout: str) -> None:
    optimizer, by_hand = RULES[rule]
    losses, weights = _train(optimizer, LAYOUTS[layout], 4)
    expected_losses, expected = _by_hand(by_hand, weights[:2], 4)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-12)
    for found, wanted in zip(weights[2:], expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-13)


OPTIMIZERS = {
    "adafactor": lambda: mtf.optimize.AdafactorOptimizer(learning_rate=0.05, min_dim_size_to_factor=2),
    "adam": lambda: mtf.optimize.AdamWeightDecayOptimizer(learning_rate=0.01, weight_decay_rate=0.1),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_does_not_depend_on_the_layout(name: str) -> None:
    one, *others = (_train(OPTIMIZERS[name], LAYOUTS[layout], 2, dtype=tf.float32) for layout in ("one", "uneven", "2x2"))
    assert one[0][-1] < one[0][0]
    for losses, weights in others:
        np.testing.assert_allclose(losses, one[0], rtol=1e-4)  # these keep float32 statistics
        for found, wanted in zip(weights, one[1], strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["even", "uneven"])
def test_stacked_variables_train_alike(layout: str) -> None:
    optimizer, _ = RULES["sgd"]
    plain, stacked = (_train(optimizer, LAYOUTS[layout], 3, stack) for stack in (False, True))
    np.testing.assert_allclose(stacked[0], plain[0], rtol=1e-12)
    for found, wanted in zip(stacked[1], plain[1], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_two_variables_of_a_shape_are_stacked_and_set_together() -> None:
    with tf.Graph().as_default(), tf1.Session(config=quick()) as session:
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        a, b = (mtf.get_variable(mesh, name, shape(c=6), initializer=tf1.random_normal_initializer(seed=5)) for name in "ab")
        mtf.assign(a, b * 2.0)
        mtf.assign(b, a * 3.0)
        (update,) = graph.combine_assignments([op for op in graph.operations if isinstance(op, mtf.Assign)])
        masters = [v.get_master() for v in graph.all_variables]
        impl = implementation([("p", 2)], {"c": "p"}, {"c": (5, 1)})
        graph.rewrite_stack_variables(mesh_to_impl={mesh: impl})
        assert [type(v).__name__ for v in graph.all_variables] == ["StackedVariable"]
        lowering = lower(graph, {mesh: impl})
        session.run(lowering.initializer)
        first, second = session.run(masters)
        session.run(lowering.lowered_operation(update))
        session.run(lowering.copy_slices_to_masters())
        np.testing.assert_array_equal(session.run(masters), [second * 2, first * 3])


@pytest.mark.slow
def test_a_step_reads_every_slice_once_and_writes_it_after_that() -> None:
    with tf.Graph().as_default():
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        loss = _network(mesh)
        variables = graph.trainable_variables
        updates = mtf.optimize.MomentumOptimizer(0.1, 0.9).apply_grads(mtf.gradients([loss], [v.outputs[0] for v in variables]), variables)
        lowering = lower(graph, {mesh: LAYOUTS["uneven"]})
        snapshots = {piece.op.inputs[0].op: piece.op for v in lowering.variables.values() for piece in v.laid_out_tensor.tensor_list}
        assert len(snapshots) == 4 * 3 and _reads(lowering.export_to_tf_tensor(loss).op) <= set(snapshots.values())
        writes = [write for update in updates for write in _writes(lowering.lowered_operation(update))]
        assert len(writes) == 4 * 2  # two kernels and two velocities on the two processors that hold anything
        for write in writes:
            assert snapshots[write.inputs[0].op] in _ancestors(write)
            others = {read for read in _reads(write) if read.inputs[0].op is not write.inputs[0].op}
            assert others <= set(snapshots.values())


def _reads(op: tf.Operation) -> set[tf.Operation]:
    return {before for before in _ancestors(op) if before.type == "ReadVariableOp"}


def _writes(group: tf.Operation) -> list[tf.Operation]:
    found, todo = [], [group]
    while todo:
        op = todo.pop()
        if op.type == "AssignVariableOp":
            found.append(op)
        elif op.type in ("NoOp", "ReadVariableOp", "Identity"):
            todo += [*op.control_inputs, *(t.op for t in op.inputs)]
    return found


def _ancestors(op: tf.Operation) -> set[tf.Operation]:
    found: set[tf.Operation] = set()
    todo = [op]
    while todo:
        for before in [*(t.op for t in todo[-1].inputs), *todo.pop().control_inputs]:
            if before not in found:
                found.add(before)
                todo.append(before)
    return found


def test_initial_values_are_one_whole_draw() -> None:
    def build(mesh: Any) -> Any:
        kernel = mtf.get_variable(mesh, "kernel", shape(h=3, c=6), tf.float64, initializer=tf1.glorot_normal_initializer())
        return [kernel, mtf.read_variable(kernel.operation)]

    impls = [implementation([("p", len(sizes))], {"c": "p"}, {"c": sizes}) for sizes in ((6,), (5, 1), (2, 0, 4))]
    expected, found = stock_and_uneven(build, impls)
    for kernel, read in found:
        np.testing.assert_array_equal(kernel, expected[0])
        np.testing.assert_array_equal(read, expected[0])


def test_a_variable_has_the_types_it_is_given() -> None:
    def build(mesh: Any) -> Any:
        dtype = mtf.VariableDType(tf.float64, tf.float32, tf.bfloat16)
        return [mtf.cast(mtf.get_variable(mesh, "v", shape(c=6), dtype, initializer=tf1.ones_initializer()), tf.float32)]

    _, ((found,),) = stock_and_uneven(build, [implementation([("p", 2)], {"c": "p"}, {"c": (5, 1)})])
    np.testing.assert_array_equal(found, np.ones(6))


@pytest.mark.fast("(0, 6, 0)")
@pytest.mark.parametrize("sizes", [(6,), (5, 1), (0, 6, 0)], ids=str)
def test_assigning_adding_and_subtracting_give_what_they_say_in_the_next_step(sizes: tuple[int, ...]) -> None:
    with tf.Graph().as_default(), tf1.Session(config=quick()) as session:
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        a, b, c = (mtf.get_variable(mesh, name, shape(c=6), tf.float64, initializer=tf1.ones_initializer()) for name in "abc")
        dimension = mtf.Dimension("c", 6)
        step = mtf.range(mesh, dimension, tf.float64)
        updates = [mtf.assign(a, step * 2.0), mtf.assign_add(b, step), mtf.assign_sub(c, step)]
        after = mtf.depend(a + b, updates)
        lowering = lower(graph, {mesh: implementation([("p", len(sizes))], {"c": "p"}, {"c": sizes})})
        session.run(lowering.initializer)
        fetches = [lowering.export_to_tf_tensor(t) for t in (a, b, c, after)]
        before = session.run(fetches)
        now = session.run(fetches[:3])
    steps = np.arange(6.0)
    np.testing.assert_array_equal(before, [*(np.ones((3, 6))), np.full(6, 2.0)])
    np.testing.assert_array_equal(now, [steps * 2, 1 + steps, 1 - steps])


def test_masters_are_copied_to_the_slices_as_after_a_checkpoint() -> None:
    with tf.Graph().as_default(), tf1.Session(config=quick()) as session:
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        value = mtf.get_variable(mesh, "v", shape(c=6), initializer=tf1.zeros_initializer())
        lowering = lower(graph, {mesh: implementation([("p", 2)], {"c": "p"}, {"c": (5, 1)})})
        session.run(lowering.initializer)
        (master,) = tf1.global_variables()
        session.run(master.assign(tf.range(6.0)))
        assert session.run(lowering.export_to_tf_tensor(value)).tolist() == [0.0] * 6
        session.run(lowering.copy_masters_to_slices())
        assert session.run(lowering.export_to_tf_tensor(value)).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_value_of_another_shape_is_refused() -> None:
    with tf.Graph().as_default():
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        value = mtf.get_variable(mesh, "v", shape(c=6), initializer=tf1.zeros_initializer())
        mtf.assign(value, mtf.range(mesh, mtf.Dimension("d", 6), tf.float32))
        with pytest.raises(LayoutError, match=r"operation assign.* \(Assign\) gives v of .*c=6.* a value of .*d=6.*; reshape the value"):
            lower(graph, {mesh: implementation([("p", 2)], {"c": "p"}, {"c": (5, 1)})})


@pytest.mark.slow
def test_a_checkpoint_written_on_one_layout_is_restored_on_another(tmp_path: Any) -> None:
    def train(impl: UnevenMeshImpl, steps: int, restored: bool) -> list[float]:
        with tf.Graph().as_default(), tf1.Session(config=quick()) as session:
            graph = mtf.Graph()
            mesh = mtf.Mesh(graph, "mesh")
            loss = _network(mesh)
            variables = graph.trainable_variables
            gradients = mtf.gradients([loss], [v.value for v in variables])
            updates = mtf.optimize.MomentumOptimizer(0.02, 0.9).apply_grads(gradients, variables)
            saver = tf1.train.Saver()
            lowering = lower(graph, {mesh: impl})
            step = [lowering.export_to_tf_tensor(loss), *(lowering.lowered_operation(update) for update in updates)]
            session.run(lowering.initializer)
            if restored:
                saver.restore(session, str(tmp_path / "weights"))
                session.run(lowering.copy_masters_to_slices())
            losses = []
            for number in range(steps):
                if number == 2:
                    session.run(lowering.copy_slices_to_masters())
                    saver.save(session, str(tmp_path / "weights"), write_meta_graph=False)
                losses.append(session.run(step)[0])
            return losses

    whole = train(LAYOUTS["uneven"], 4, restored=False)
    np.testing.assert_allclose(train(LAYOUTS["2x2"], 2, restored=True), whole[2:], rtol=1e-12)
