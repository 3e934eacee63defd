"""Probes: the loops do the layer's own work, once a repetition, and leave nothing behind."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import hetero_mtf as hm
from hetero_mtf.calibration.points import Point, points
from hetero_mtf.calibration.probe import Probe, build_probe
from hetero_mtf.graph.variable_keys import variable_key
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.program.optimizer_reading import read_optimizer

L = keras.layers
BATCH = 5


def _model() -> keras.Model:
    i = keras.Input((6, 6, 2))
    x = L.Conv2D(4, 3, padding="same", name="conv", activation="relu")(i)
    y = L.BatchNormalization(name="norm", momentum=0.5)(L.Conv2D(4, 1, name="side")(i))
    x = L.MaxPooling2D(name="pool")(L.Add(name="sum")([x, y]))
    return keras.Model(i, L.Dense(3, name="head")(L.Flatten()(x)))


def _probe(point: Point, cluster: Any, optimizer: Any = "sgd", dtype: str = "float64") -> tuple[tf.Graph, Probe]:
    rule, _ = read_optimizer(optimizer, dtype)
    graph = tf.Graph()
    with graph.as_default():
        return graph, build_probe(point, cluster.devices[0].tf_device, dtype, rule, "probes", 7)


@pytest.fixture
def float64() -> None:
    keras.config.set_floatx("float64")


def _held(name: str, shape: tuple[int, ...]) -> tf.Tensor:
    """Return the value of what probe 7 holds under a name."""
    handle = tf.raw_ops.VarHandleOp(dtype=tf.float64, shape=list(shape), shared_name=f"probe7/{name}", container="probes")
    return tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float64)


def _point(name: str, dimension: str = "output") -> Point:
    graph = layer_graph(_model())
    return next(p for p in points(graph, BATCH) if graph.layers[p.layer].name == name and p.dimension == dimension and p.full)


@pytest.mark.slow
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_point_of_a_network_can_be_run_any_number_of_times(every: bool, float64: None) -> None:
    found = [point for point in points(layer_graph(_model()), BATCH) if every or point.full]
    with hm.Cluster.local(["cpu:0"]) as cluster:
        for point in found:
            graph, probe = _probe(point, cluster)
            assert set(probe.passes) == {"forward", "step", *(["update"] if point.updates else [])}
            with cluster.session(graph) as session:
                session.run(probe.setup)
                for loop in probe.passes.values():
                    assert [session.run(loop, {probe.repeats: count}) for count in (0, 1, 3)] == [0, 1, 3]


@pytest.mark.slow
def test_a_step_repeats_the_layers_work_as_often_as_it_is_told(float64: None) -> None:
    with hm.Cluster.local(["cpu:0"]) as cluster:
        graph, probe = _probe(_point("norm"), cluster)
        index = len(probe.point.input_shapes)
        with graph.as_default():
            key = variable_key(index, "moving_mean")
            moving, x = _held(key, (4,)), _held("x0", (BATCH, 6, 6, 4))
        with cluster.session(graph) as session:
            session.run(probe.setup)
            start, mean = session.run(moving), session.run(x).mean((0, 1, 2))
            session.run(probe.passes["step"], {probe.repeats: 5})
            np.testing.assert_allclose(session.run(moving), mean + (start - mean) * 0.5**5, rtol=1e-10)
            session.run(probe.passes["forward"], {probe.repeats: 5})
            session.run(probe.passes["update"], {probe.repeats: 5})
            np.testing.assert_allclose(session.run(moving), mean + (start - mean) * 0.5**5, rtol=1e-10)


def _norm_points() -> list[Point]:
    graph = layer_graph(_model())
    return [point for point in points(graph, BATCH) if graph.layers[point.layer].name == "norm"]


def _kernels(graph: tf.Graph, kind: str) -> list[bool]:
    """Return of each kernel of a kind, in loops too, whether it takes the statistics of the batch that it is given."""
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    return [node.attr["is_training"].b for node in nodes if node.op == kind]


@pytest.mark.slow
def test_batch_norm_runs_in_the_form_of_a_split_batch_over_samples_and_else_in_that_of_an_unsplit_one() -> None:
    with hm.Cluster.local(["cpu:0"]) as cluster:
        for point in _norm_points():
            graph, _ = _probe(point, cluster, dtype="float32")
            split = point.dimension == "batch"
            assert set(_kernels(graph, "FusedBatchNormGradV3")) == {not split}
            assert set(_kernels(graph, "FusedBatchNormV3")) == ({True, False} if split else {True})


@pytest.mark.slow
def test_statistics_of_a_split_batch_are_those_of_its_samples(float64: None) -> None:
    shared = [point for point in _norm_points() if point.shares_batch]
    assert [point.samples for point in shared][-1] == BATCH and len(shared) >= 2
    with hm.Cluster.local(["cpu:0"]) as cluster:
        for point in shared:
            graph, probe = _probe(point, cluster)
            assert set(probe.passes) == {"forward", "step"}
            with graph.as_default():
                names = [variable_key(1, name) for name in ("moving_mean", "moving_variance")]
                held = [_held(name, (4,)) for name in names]
                x = _held("x0", (point.samples, 6, 6, 4))
            with cluster.session(graph) as session:
                session.run(probe.setup)
                start, value = session.run(held), session.run(x)
                session.run(probe.passes["step"], {probe.repeats: 5})
                for before, after, wanted in zip(start, session.run(held), (value.mean((0, 1, 2)), value.var((0, 1, 2)))):
                    np.testing.assert_allclose(after, wanted + (before - wanted) * 0.5**5, rtol=1e-10)
                session.run(probe.teardown)


@pytest.mark.slow
def test_an_update_repeats_the_optimizers_work_as_often_as_it_is_told(float64: None) -> None:
    with hm.Cluster.local(["cpu:0"]) as cluster:
        graph, probe = _probe(_point("conv"), cluster)
        key = variable_key(len(probe.point.input_shapes), "kernel")
        with graph.as_default():
            kernel, gradient = _held(key, (3, 3, 2, 4)), _held(f"{key}/gradient", (3, 3, 2, 4))
        with cluster.session(graph) as session:
            session.run(probe.setup)
            start, slope = session.run([kernel, gradient])
            session.run(probe.passes["step"], {probe.repeats: 4})
            np.testing.assert_array_equal(session.run(kernel), start)
            session.run(probe.passes["update"], {probe.repeats: 4})
            np.testing.assert_allclose(session.run(kernel), start - 4e-6 * slope, rtol=1e-10)


@pytest.mark.fast("False")
@pytest.mark.parametrize("shares", [False, True])
def test_a_probe_frees_what_it_held(shares: bool, float64: None) -> None:
    point = _norm_points()[-1] if shares else _point("conv")
    assert point.shares_batch == shares
    with hm.Cluster.local(["cpu:0"]) as cluster:
        graph, probe = _probe(point, cluster, "adam")
        with graph.as_default():
            found = tf.raw_ops.VarIsInitializedOp
            held = [found(resource=op.outputs[0]) for op in graph.get_operations() if op.type == "VarHandleOp"]
        with cluster.session(graph) as session:
            session.run(probe.setup)
            assert len(held) >= 8 and all(session.run(held))
            session.run(probe.teardown)
            assert not any(session.run(held))


@pytest.mark.slow
@pytest.mark.fast("optimizer3")
@pytest.mark.parametrize("optimizer", ["sgd", keras.optimizers.SGD(momentum=0.9), "adam", keras.optimizers.Adam(amsgrad=True), "adamw"])
def test_updates_of_every_optimizer_stay_finite_however_long_they_are_measured(optimizer: Any, float64: None) -> None:
    with hm.Cluster.local(["cpu:0"]) as cluster:
        graph, probe = _probe(_point("head"), cluster, optimizer)
        with graph.as_default():
            kernel = _held(variable_key(len(probe.point.input_shapes), "kernel"), (36, 3))
        with cluster.session(graph) as session:
            session.run(probe.setup)
            session.run(probe.passes["update"], {probe.repeats: 2000})
            assert np.isfinite(session.run(kernel)).all()


@pytest.mark.fast("False")
@pytest.mark.parametrize("shares", [False, True])
def test_all_work_of_a_probe_is_placed_on_its_device(shares: bool, float64: None) -> None:
    with hm.Cluster.local(["cpu:0"]) as cluster:
        graph, _ = _probe(_norm_points()[-1] if shares else _point("conv"), cluster)
    elsewhere = {op.type for op in graph.get_operations() if not op.device.endswith("CPU:0")}
    assert elsewhere <= {"Placeholder", "Const", "NoOp", "Fill", "Zeros"}, elsewhere


@pytest.mark.parametrize("name", ["conv", "norm", "side", "pool", "sum"])
def test_a_slab_is_measured_in_the_form_in_which_it_is_trained(name: str, float64: None) -> None:
    graph = layer_graph(_model())
    wanted = [p for p in points(graph, 1) if p.dimension == "space" and p.probe.name == name]
    assert wanted
    with hm.Cluster.local(["cpu:0"]) as cluster:
        for point in wanted:
            tf_graph, probe = _probe(point, cluster)
            with cluster.session(tf_graph) as session:
                session.run(probe.setup)
                assert [session.run(each, {probe.repeats: 2}) for each in probe.passes.values()] == [2, 2]
                session.run(probe.teardown)
