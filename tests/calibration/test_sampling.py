"""Sampling: further points where curves bend, within the time there is, and curves of all that was measured."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import keras
import pytest

import hetero_mtf as hm
from hetero_mtf.calibration import sampling
from hetero_mtf.calibration.calibration_budget import Effort, EffortWindows
from hetero_mtf.calibration.points import Point, extreme_points, points
from hetero_mtf.calibration.sampling import MeasurementContext, Sampler
from hetero_mtf.calibration.turns import Turns
from hetero_mtf.calibration.windows import Measurement, Windows
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.planning.profile.curve import Curve
from hetero_mtf.program.optimizer_reading import read_optimizer

L = keras.layers
BATCH = 8
WINDOWS = EffortWindows.equal(Windows(0.2, 3))


class _Known(Sampler):
    """A sampler that knows what each point takes: a step at 40 output units of the second convolution, else a line."""

    built: list[Point]

    def _measured(self, point: Point) -> dict[str, Measurement]:
        self.built.append(point)
        units, whole = point.units, point.probe.name == "second" and point.dimension == "output"
        seconds = 0.001 * units + (5.0 if whole and units > 40 else 0.0)
        found = {"forward": Measurement(seconds, 0.0), "backward": Measurement(seconds, 0.0)}
        return {**found, "update": Measurement(0.5, 0.0)} if point.updates else found


def _network() -> LayerGraph:
    i = keras.Input((6, 6, 4))
    return layer_graph(keras.Model(i, L.Conv2D(64, 3, name="second")(L.ReLU()(L.Conv2D(64, 3, name="first")(i)))))


def _sampler(graph: LayerGraph, first: Sequence[Point]) -> _Known:
    rule, _ = read_optimizer("sgd", "float32")
    sampler = _Known(MeasurementContext(None, graph, BATCH, rule, WINDOWS), 1, "probes")
    sampler.built = []
    for point in first:
        sampler.take(point)
    return sampler


@pytest.fixture
def known() -> _Known:
    graph = _network()
    return _sampler(graph, points(graph, BATCH))


def _curve(sampler: Sampler, layer: int, dimension: str, step_pass: str = "forward") -> Curve:
    return next(c for c in sampler.curves() if (c.layer, c.dimension, c.step_pass) == (layer, dimension, step_pass))


def test_further_points_close_in_on_a_step(known: _Known) -> None:
    known.refine(Effort((), WINDOWS, refine_s=1000.0), 0.0, clock=lambda: 0.0)
    units = _curve(known, 3, "output").units
    assert {40, 41} <= set(units) and len(units) < 16
    curves = known.curves()
    assert {curve.device for curve in curves} == {1} and all(list(c.units) == sorted(c.units) for c in curves)


def test_of_light_layers_the_lower_ends_are_measured_where_there_is_time() -> None:
    graph = _network()
    first, later = extreme_points(graph, points(graph, BATCH))
    light = {point.layer for point in later}
    assert light and all(len(curve.units) == 1 for curve in _sampler(graph, first).curves() if curve.layer in light)
    sampler = _sampler(graph, first)
    sampler.refine(Effort((), WINDOWS, refine_s=1000.0, optional=later), 0.0, clock=lambda: 0.0)
    measured = {(curve.layer, curve.dimension): curve.units for curve in sampler.curves() if curve.step_pass == "forward"}
    assert all(measured[point.layer, point.dimension][0] == point.units for point in later)
    assert {40, 41} <= set(measured[3, "output"])
    without = _sampler(graph, first)
    without.refine(Effort((), WINDOWS, refine_s=1000.0), 0.0, clock=lambda: 0.0)
    assert all(len(curve.units) == 1 for curve in without.curves() if curve.layer in light)


def test_they_end_when_the_time_does(known: _Known) -> None:
    before = len(known.built)
    ticking = itertools.count()
    known.refine(Effort((), WINDOWS, refine_s=8.0), 0.0, clock=lambda: float(next(ticking)))
    assert 1 <= len(known.built) - before <= 5
    late = len(known.built)
    known.refine(Effort((), WINDOWS, refine_s=8.0, limit_s=10.0), 0.0, clock=lambda: 9.0)
    assert len(known.built) == late


@pytest.mark.parametrize("limit_s", [0.0, 40.0, 1e9])
def test_the_upper_ends_are_measured_however_long_they_take_then_the_heaviest_lower_ones(
    limit_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = _network()
    wanted = points(graph, BATCH)
    rule, _ = read_optimizer("sgd", "float32")
    ticking, built, advanced = itertools.count(), list[Point](), list[str]()
    cluster = SimpleNamespace(
        devices=[None, SimpleNamespace(name="worker:1")],
        container=lambda name: SimpleNamespace(name=name, release=lambda: None),
    )
    monkeypatch.setattr(sampling, "Sampler", _Known)
    monkeypatch.setattr(_Known, "built", built, raising=False)
    turns = Turns()
    monkeypatch.setattr(turns, "clock", lambda: 10.0 * next(ticking))
    effort = Effort(wanted, WINDOWS, refine_s=0.0, limit_s=limit_s)
    curves = sampling.sample(MeasurementContext(cluster, graph, BATCH, rule, WINDOWS, turns), 1, effort, wanted, advanced.append)
    assert len(advanced) == len(wanted)
    assert {(c.layer, c.dimension) for c in curves} == {(point.layer, point.dimension) for point in wanted}
    parts = [
        point for point in built if point.units < max(p.units for p in wanted if (p.layer, p.dimension) == (point.layer, point.dimension))
    ]
    assert parts == built[len(built) - len(parts) :]
    most = {0.0: 0, 40.0: 6, 1e9: len(wanted)}[limit_s]
    assert len(parts) == min(most, len([p for p in wanted if not p.full and p not in built[: len(built) - len(parts)]]))
    if 0 < limit_s < 1e9:
        assert {point.probe.name for point in parts} == {"second"}


def test_a_whole_layer_is_built_once_and_an_update_has_no_curve_over_samples(known: _Known) -> None:
    assert sum(point.full for point in known.built) == len({point.layer for point in known.built})
    assert not [c for c in known.curves() if (c.dimension, c.step_pass) == ("batch", "update")]
    assert _curve(known, 3, "output", "update").units == (64,)


def test_a_probe_is_numbered_apart_from_all_others(known: _Known, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: list[int] = []

    def refuse(point: Point, device: str, dtype: str, rule: Any, container: str, number: int, wanted: Any) -> None:
        numbers.append(number)
        raise KeyError

    monkeypatch.setattr(sampling, "build_probe", refuse)

    class _Cluster:
        devices = (None, type("D", (), {"tf_device": "/device:CPU:0"}))

    graph, rule = known._context.graph, known._context.rule
    sampler = Sampler(MeasurementContext(_Cluster(), graph, BATCH, rule, WINDOWS), 1, "probes")
    for point in points(graph, BATCH)[:3]:
        with pytest.raises(KeyError):
            sampler.take(point)
    assert numbers == [1, 2, 3]


def test_steps_of_points_are_timed_without_their_passes_in_one_session_and_not_kept(
    known: _Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, rule = known._context.graph, known._context.rule
    built, build = [], sampling.build_probe

    def noted(*arguments: Any) -> Any:
        built.append(build(*arguments))
        return built[-1]

    monkeypatch.setattr(sampling, "build_probe", noted)
    with hm.Cluster.local(["cpu:0"]) as cluster:
        opened, session = [], cluster.session
        monkeypatch.setattr(cluster, "session", lambda graph: opened.append(graph) or session(graph))
        sampler = Sampler(MeasurementContext(cluster, graph, BATCH, rule, EffortWindows.equal(Windows(0.01, 1))), 0, "steps")
        measured = sampler.steps(points(graph, BATCH)[:2])
    assert [tuple(probe.passes) for probe in built] == [("step",), ("step",)] and len(opened) == 1
    assert len(measured) == 2 and all(each.seconds > 0 for each in measured)
    assert sampler.curves() == []


class _Scripted:
    """Windows whose measurements are known, in seconds of the forward pass and of both."""

    def __init__(self, *seconds: tuple[float, float]) -> None:
        self.left = list(seconds)

    def measure(self, runs: Any) -> dict[str, Measurement]:
        return {name: Measurement(each, 0.0) for name, each in zip(("forward", "step"), self.left.pop(0))}


@pytest.mark.parametrize(
    ("first", "again", "taken"),
    [((1.0, 3.0), (0.5, 1.0), (1.0, 3.0)), ((3.6, 3.5), (1.5, 3.9), (1.5, 3.5)), ((2.0, 2.0), (3.0, 3.0), (2.0, 2.0))],
)
def test_a_forward_pass_that_took_as_long_as_both_is_measured_once_more(first: Any, again: Any, taken: Any) -> None:
    heavy, *_ = (point for point in points(_network(), BATCH) if not point.minor and point.input_gradient)
    for point, wanted in ((heavy, taken), (dataclasses.replace(heavy, minor=True), first)):
        windows = _Scripted(first, again)
        timed = sampling._time_probe(None, SimpleNamespace(point=point, passes={"forward": None, "step": None}), windows)
        assert (timed["forward"].seconds, timed["step"].seconds) == wanted
        assert len(windows.left) == (1 if first[0] < first[1] or point.minor else 0)
