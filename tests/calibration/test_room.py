"""What a device has no room for is measured in parts, and continued to the whole layer."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import keras
import pytest

import hetero_mtf as hm
from hetero_mtf.calibration import calibrate as calibrate_module
from hetero_mtf.calibration import calibration_budget, rough
from hetero_mtf.calibration.calibration_budget import CalibrationWarning
from hetero_mtf.calibration.points import Point, points
from hetero_mtf.calibration.room import point_within, points_within, probe_bytes, room_bytes, whole_by_parts
from hetero_mtf.calibration.sampling import Sampler
from hetero_mtf.devices.records import ClusterRecord, MemoryPool
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.planning.profile.curve import Curve
from hetero_mtf.program.optimizer_reading import read_optimizer
from tests.planning.networks import pair_net, profile_of

L = keras.layers


def _model() -> keras.Model:
    x = volume = keras.Input((16, 8, 8, 1))
    for name in ("first", "second"):
        x = L.Conv3D(4, 3, padding="same", name=name)(x)
    return keras.Model(volume, L.Dense(2)(L.GlobalAveragePooling3D()(x)))


MODEL = _model()
GRAPH = layer_graph(MODEL)
RULE, _ = read_optimizer(keras.optimizers.SGD(momentum=0.9), GRAPH.dtype, GRAPH.has_one_variable_dtype)
SLOTS = len(RULE.slots)
WANTED = points(GRAPH, 1)


def _needs(point: Point) -> float:
    return probe_bytes(GRAPH, point, SLOTS)


def test_all_is_measured_where_there_is_room() -> None:
    assert points_within(GRAPH, WANTED, 1, RULE, max(map(_needs, WANTED))) == list(WANTED)


@pytest.mark.parametrize("part", [0.9, 0.6, 0.3, 0.2])
def test_a_layer_without_room_is_measured_in_the_thickest_slab_that_has(part: float) -> None:
    second = next(index for index, layer in enumerate(GRAPH.layers) if layer.name == "second")
    room = part * max(_needs(point) for point in WANTED if point.layer == second)
    found = points_within(GRAPH, WANTED, 1, RULE, room)
    assert len(found) <= len(WANTED) and all(_needs(point) <= room for point in found if point.layer == second)
    slabs = [point for point in found if (point.layer, point.dimension) == (second, "space")]
    assert not any(point.full for point in found if point.layer == second)
    assert [point.units for point in slabs] == sorted({point.units for point in slabs}) and slabs[-1].units < 16
    assert [point.updates for point in slabs] == [False] * (len(slabs) - 1) + [True]
    assert _needs(slabs[-1]) > 0.8 * room or slabs[-1].units == 1
    light = [point for point in WANTED if GRAPH.layers[point.layer].kind == "Dense"]
    assert [point for point in found if GRAPH.layers[point.layer].kind == "Dense"] == light


def test_larger_batches_are_measured_with_the_samples_that_there_is_room_for() -> None:
    wanted = points(GRAPH, 8)
    second = next(index for index, layer in enumerate(GRAPH.layers) if layer.name == "second")
    room = 0.7 * max(_needs(point) for point in wanted if point.layer == second)
    found = [each for each in points_within(GRAPH, wanted, 8, RULE, room) if (each.layer, each.dimension) == (second, "batch")]
    assert [point.units for point in found] == [2, 4, 5]
    assert [point.updates for point in found] == [False, False, True]
    curves = [Curve(second, 0, "batch", name, 8, (4, 5), (2.0, 2.5), (0.1, 0.2)) for name in ("forward", "backward", "update")]
    made = {(curve.dimension, curve.step_pass): curve for curve in whole_by_parts(curves, wanted)}
    assert ("batch", "update") not in made and made["output", "forward"].seconds == (4.0,) and made["output", "update"].seconds == (2.5,)


def test_of_a_layer_of_which_the_upper_end_is_measured_alone_there_is_one_part() -> None:
    upper = [point for point in WANTED if (GRAPH.layers[point.layer].name, point.dimension) == ("second", "space")][-1:]
    (part,) = points_within(GRAPH, upper, 1, RULE, 0.5 * _needs(upper[0]))
    assert part.units < 16 and part.stands_for_whole


def test_where_no_part_fits_all_is_measured() -> None:
    assert points_within(GRAPH, WANTED, 1, RULE, 1000.0) == list(WANTED)


def test_a_point_without_room_becomes_a_slab() -> None:
    whole = max((point for point in WANTED if point.full), key=_needs)
    assert point_within(GRAPH, whole, WANTED, 1, RULE, math.inf) is whole
    slab = point_within(GRAPH, whole, WANTED, 1, RULE, 0.5 * _needs(whole))
    assert slab.dimension == "space" and _needs(slab) <= 0.5 * _needs(whole)


def test_a_layer_measured_in_slabs_is_continued_to_the_whole() -> None:
    layer = next(point.layer for point in WANTED if point.dimension == "space" and GRAPH.layers[point.layer].kind == "Conv3D")
    slabs = [Curve(layer, 1, "space", name, 1, (4, 8), (2.0, 3.0), (0.1, 0.2)) for name in ("forward", "backward")]
    update = Curve(layer, 1, "space", "update", 1, (8,), (0.5,), (0.3,))
    halves = Curve(layer, 1, "input", "forward", 1, (1,), (7.0,), (0.0,))
    found = {(curve.dimension, curve.step_pass): curve for curve in whole_by_parts([*slabs, update, halves], WANTED)}
    assert ("space", "update") not in found and found["input", "forward"] == halves
    for dimension, units in (("output", 4), ("input", 1)):
        assert found[dimension, "update"] == Curve(layer, 1, dimension, "update", 1, (units,), (0.5,), (0.3,))
        assert found[dimension, "backward"] == Curve(layer, 1, dimension, "backward", 1, (units,), (5.0,), (0.2,))


def test_a_curve_of_some_units_ends_in_the_whole_that_its_parts_are_continued_to() -> None:
    layer = next(index for index, each in enumerate(GRAPH.layers) if each.name == "second")
    slabs = Curve(layer, 0, "space", "forward", 1, (4, 8), (2.0, 3.0), (0.1, 0.2))
    quarter = Curve(layer, 0, "output", "forward", 1, (1,), (2.0,), (0.3,))
    made = {(curve.dimension, curve.step_pass): curve for curve in whole_by_parts([slabs, quarter], WANTED)}
    assert made["output", "forward"] == Curve(layer, 0, "output", "forward", 1, (1, 4), (2.0, 5.0), (0.3, 0.2))
    assert made["space", "forward"] == slabs and made["input", "forward"].seconds == (5.0,)


def test_devices_that_are_measured_at_the_same_time_share_their_memory() -> None:
    devices = profile_of(pair_net(8, 8, 4), [1e6, 1e6, 1e6], bandwidth=1e9).cluster.devices
    placed = [dataclasses.replace(device, pool=pool) for device, pool in zip(devices, ("a", "a", "b"))]
    record = ClusterRecord(tuple(placed), (MemoryPool("a", 1000), MemoryPool("b", 1000)))
    assert [room_bytes(record, device) for device in range(3)] == [400.0, 400.0, 800.0]
    unknown = ClusterRecord(tuple(placed), (MemoryPool("a", 0), MemoryPool("b", 1000)))
    assert room_bytes(unknown, 0) == math.inf


@pytest.mark.parametrize("batch, strategy", [(1, "space"), (8, "batch")])
def test_a_network_that_fits_nowhere_whole_is_measured_and_planned_in_parts(
    batch: int, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = points(GRAPH, batch)
    room = 0.4 * max(map(_needs, wanted))
    for module in (calibrate_module, rough):
        monkeypatch.setattr(module, "room_bytes", lambda record, device: room)
    timed, taken = Sampler._timed, []

    def noted(sampler: Any, these: Any, passes: Any) -> Any:
        taken.extend(these)
        return timed(sampler, these, passes)

    monkeypatch.setattr(Sampler, "_timed", noted)
    monkeypatch.setattr(calibration_budget, "LEAST_WINDOW_S", 0.02)
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        with pytest.warns(CalibrationWarning, match="a budget of 0.01 s is short"):
            profile = hm.calibrate(cluster, MODEL, batch, budget_s=0.01, verbose=0)
        roughly = calibrate_module.rough_calibration(cluster, MODEL, batch)
        splits = {point.layer for point in wanted if point.dimension in ("space", "batch") and point.units > 1}
        assert taken and all(_needs(point) <= room for point in taken if point.layer in splits)
        plan = hm.plan(profile, strategy=strategy)
        entry = plan.stages[0].layouts[1]
        assert sum(entry.slabs or entry.samples) == (16 if batch == 1 else 8)
        assert plan.predicted is not None and plan.predicted.step_s > 0
        assert hm.plan(profile, strategy="layers").predicted is not None and hm.plan(roughly).predicted is not None
