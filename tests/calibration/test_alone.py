"""Alone: which devices had company while they were measured, which of their layers are measured again, and that these are."""

from __future__ import annotations

import dataclasses

import keras
import pytest

import hetero_mtf as hm
from hetero_mtf.calibration.alone import accompanied, heaviest, sample_alone
from hetero_mtf.calibration.calibration_budget import EffortWindows
from hetero_mtf.calibration.points import points
from hetero_mtf.calibration.sampling import MeasurementContext
from hetero_mtf.calibration.windows import Windows
from hetero_mtf.devices import Device
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.planning.profile.curve import Curve
from hetero_mtf.program.optimizer_reading import read_optimizer

L = keras.layers
BATCH = 4


def _device(host: str, tf_device: str) -> Device:
    return Device(tf_device, "CPU", host, tf_device, 2**30, "host", 1.0, "")


def test_devices_had_company_where_their_host_has_another_process() -> None:
    pair = [_device("a", f"/job:worker/task:{task}/device:CPU:0") for task in range(2)]
    other = _device("b", "/job:worker/task:2/device:CPU:0")
    one_process = [_device("c", "/device:CPU:0"), _device("c", "/device:GPU:0")]
    assert accompanied([*pair, other, *one_process], range(5)) == [0, 1]
    assert accompanied([other, *one_process], [0, 1, 2]) == []


@pytest.fixture(scope="module")
def context() -> MeasurementContext:
    i = keras.Input((6, 6, 4))
    x = L.Conv2D(8, 3, name="third", padding="same")(L.Conv2D(8, 3, name="second", padding="same")(L.Conv2D(8, 3, name="first")(i)))
    graph = layer_graph(keras.Model(i, L.Dense(3, name="head")(L.GlobalAveragePooling2D(name="pool")(x))))
    rule, _ = read_optimizer("sgd", "float32")
    return MeasurementContext(None, graph, BATCH, rule, EffortWindows.equal(Windows(0.02, 1)))


def _curves(seconds: dict[int, float]) -> list[Curve]:
    spent = [(layer, step_pass, s) for layer, s in seconds.items() for step_pass in ("forward", "backward", "update")]
    return [Curve(layer, 1, "output", step_pass, BATCH, (4, 8), (s / 2, s), (0.0, 0.0)) for layer, step_pass, s in spent]


def test_the_layers_that_take_most_of_the_time_are_measured_again(context: MeasurementContext) -> None:
    wanted = points(context.graph, BATCH)
    curves = _curves({1: 0.5, 2: 0.3, 5: 0.0})  # the second and the third convolution are alike: 0.3 each
    assert [point.probe.name for point in heaviest(context, curves, 1, wanted, 5)] == ["second", "first"]
    assert [point.probe.name for point in heaviest(context, curves, 1, wanted, 1)] == ["second"]
    assert heaviest(context, curves, 0, wanted, 5) == [] and heaviest(context, curves, 1, wanted, 0) == []
    known = [dataclasses.replace(curve, dimension="alone") for curve in curves if curve.layer == 2]
    assert [point.probe.name for point in heaviest(context, [*curves, *known], 1, wanted, 5)] == ["first"]


def test_a_whole_layer_is_measured_forward_and_backward(context: MeasurementContext) -> None:
    with hm.Cluster.local(["cpu:0"]) as cluster:
        here = dataclasses.replace(context, cluster=cluster)
        chosen = [point for point in points(context.graph, BATCH) if point.full and point.probe.name == "second"]
        found = sample_alone(here, 0, chosen[:1])
    assert [(c.layer, c.device, c.dimension, c.step_pass, c.units) for c in found] == [
        (2, 0, "alone", "forward", (8,)),
        (2, 0, "alone", "backward", (8,)),
    ]
    assert found[0].seconds[0] > 0
