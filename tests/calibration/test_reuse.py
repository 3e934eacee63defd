"""Reuse: what holds is kept under the indices of now, what does not is not."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import pytest

from hetero_mtf.calibration.points import Point, points
from hetero_mtf.calibration.reuse import MeasurementTarget, deviation, kept_corrections, kept_curves, kept_link
from hetero_mtf.calibration.windows import Measurement
from hetero_mtf.devices import ClusterRecord
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.profile.corrections import Corrections, LayerFactor, MeasuredStep
from hetero_mtf.planning.profile.curve import Curve
from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec
from hetero_mtf.planning.profile.profile import Profile
from tests.planning.networks import Net, pair_net, profile_of

BATCH = 4
NOW = datetime.datetime(2026, 1, 5, tzinfo=datetime.timezone.utc)


def _earlier(graph: LayerGraph) -> Profile:
    """Return a profile that was made for a network, with curves over samples too."""
    found = profile_of(graph, [1e6, 5e5], latency_s=0.1)
    wanted = {(p.layer, p.dimension) for p in points(graph, BATCH)}
    curves = [c for c in found.curves if (c.layer, c.dimension) in wanted]
    samples = [dataclasses.replace(c, dimension="batch", units=(BATCH,), seconds=c.seconds[-1:], spread=(0.0,)) for c in curves]
    over_samples = {(c.layer, c.device, c.step_pass): c for c in samples if c.step_pass != "update"}
    return dataclasses.replace(found, curves=(*curves, *over_samples.values()))


def _subject(earlier: Profile, graph: LayerGraph | None = None, **change: Any) -> MeasurementTarget:
    made = MeasurementTarget(earlier.cluster, graph or earlier.graph, BATCH, earlier.optimizer, earlier.versions)
    return dataclasses.replace(made, **change)


def _kept(earlier: Profile | None, subject: MeasurementTarget, device: int = 0, now: datetime.datetime = NOW) -> list[Curve]:
    return kept_curves(earlier, subject, device, points(subject.graph, subject.batch), now)


def test_all_curves_of_the_same_network_and_device_are_kept() -> None:
    earlier = _earlier(pair_net())
    for device in (0, 1):
        assert set(_kept(earlier, _subject(earlier), device)) == {c for c in earlier.curves if c.device == device}


def test_layers_of_equal_structure_are_kept_in_another_network_and_others_are_not() -> None:
    net = Net()
    for name, filters in (("first", 12), ("second", 10), ("third", 10)):
        net.conv(name, filters)
    earlier = _earlier(pair_net())
    kept = _kept(earlier, _subject(earlier, net.graph()))
    assert {curve.layer for curve in kept} == {1, 2} and {c.seconds for c in kept} <= {c.seconds for c in earlier.curves}
    assert _kept(earlier, _subject(earlier, net.graph("float64"))) == []


@pytest.mark.parametrize("change", [{"batch": 8}, {"optimizer": OptimizerSpec("adam")}, {"versions": {"tensorflow": "9"}}])
def test_nothing_is_kept_for_another_batch_optimizer_or_program(change: dict[str, Any]) -> None:
    earlier = _earlier(pair_net())
    earlier = dataclasses.replace(earlier, versions={"tensorflow": "1"})
    assert _kept(earlier, _subject(earlier)) and not _kept(earlier, _subject(earlier, **change))


def _corrected(earlier: Profile) -> Profile:
    factors = tuple(LayerFactor(layer, device, "whole", "forward", 1.0 + layer + 0.1 * device) for layer in (1, 2) for device in (0, 1))
    steps = (MeasuredStep("batch", "abc", 1.0, 1.1, 0.0, "2026-01-01"),)
    return dataclasses.replace(earlier, corrections=Corrections(factors, 1.5, 2.0, steps, "2026-01-01", "batch of abc"))


def test_corrections_are_kept_where_all_devices_are_unchanged() -> None:
    earlier = _corrected(_earlier(pair_net()))
    kept = kept_corrections(earlier, _subject(earlier), {0, 1})
    assert set(kept.layers) == set(earlier.corrections.layers)
    assert dataclasses.replace(kept, layers=()) == dataclasses.replace(earlier.corrections, layers=())


def test_a_device_that_deviates_loses_its_factors_and_those_of_links_and_launch_overhead() -> None:
    earlier = _corrected(_earlier(pair_net()))
    kept = kept_corrections(earlier, _subject(earlier), {1})
    assert {entry.device for entry in kept.layers} == {1} and (kept.links, kept.launch, kept.steps) == (1.0, 1.0, ())
    assert kept_corrections(earlier, _subject(earlier), set()) == kept_corrections(None, _subject(earlier), {0}) == Corrections()


def test_factors_go_with_layers_of_equal_structure_to_another_network() -> None:
    net = Net()
    for name, filters in (("first", 12), ("second", 10), ("third", 10)):
        net.conv(name, filters)
    earlier = _corrected(_earlier(pair_net()))
    kept = kept_corrections(earlier, _subject(earlier, net.graph()), {0, 1})
    assert {(entry.layer, entry.factor) for entry in kept.layers if entry.device == 0} == {(1, 2.0), (2, 3.0)}


def test_nothing_is_kept_that_is_stale_or_not_there() -> None:
    earlier = _earlier(pair_net())
    assert _kept(None, _subject(earlier)) == [] and _kept(earlier, _subject(earlier), now=NOW + datetime.timedelta(days=40)) == []


@pytest.mark.parametrize("change", [{"share": 0.5}, {"model": "other"}, {"name": "gpu:0"}])
def test_nothing_is_kept_for_another_device_and_devices_may_change_places(change: dict[str, Any]) -> None:
    earlier = _earlier(pair_net())
    first, second = earlier.cluster.devices
    other = ClusterRecord((dataclasses.replace(first, **change), second), earlier.cluster.pools)
    assert _kept(earlier, _subject(earlier, record=other), 0) == [] and _kept(earlier, _subject(earlier, record=other), 1)
    turned = ClusterRecord((second, first), earlier.cluster.pools)
    kept = _kept(earlier, _subject(earlier, record=turned), 0)
    assert {c.device for c in kept} == {0} and {c.seconds for c in kept} == {c.seconds for c in earlier.curves if c.device == 1}
    links = kept_link(earlier, turned, 0, 1)
    assert links is not None and [(link.source, link.destination) for link in links] == [(0, 1), (1, 0)]


def test_a_layer_that_was_not_measured_in_all_dimensions_is_not_kept() -> None:
    earlier = _earlier(pair_net())
    partly = dataclasses.replace(earlier, curves=tuple(c for c in earlier.curves if (c.layer, c.dimension) != (1, "batch")))
    assert {curve.layer for curve in _kept(partly, _subject(partly))} == {2, 4}


def test_a_link_that_was_not_measured_is_not_kept() -> None:
    earlier = _earlier(pair_net())
    assert kept_link(None, earlier.cluster, 0, 1) is None
    assert kept_link(dataclasses.replace(earlier, links=earlier.links[:1]), earlier.cluster, 0, 1) is None


def test_the_longest_and_the_shortest_layer_are_looked_at_and_the_worse_counts_beyond_its_noise() -> None:
    earlier = _earlier(pair_net())
    kept, wanted = _kept(earlier, _subject(earlier)), points(earlier.graph, BATCH)
    looked: list[str] = []

    def measure(factor: float, spread: float) -> Any:
        def at(point: Point) -> dict[str, Measurement]:
            looked.append(point.probe.name)
            times = factor if point.probe.name == "head" else 1.0
            whole = {c.step_pass: c.seconds[-1] for c in kept if (c.layer, c.dimension) == (point.layer, "input")}
            return {name: Measurement(times * seconds, spread) for name, seconds in whole.items()}

        return at

    assert deviation(kept, wanted, measure(1.0, 0.0)) == pytest.approx(0.0, abs=1e-9)
    assert len(looked) == 2 and "head" in looked
    assert deviation(kept, wanted, measure(1.5, 0.0)) == pytest.approx(0.5)
    assert deviation(kept, wanted, measure(0.5, 0.2)) == pytest.approx(0.3)
    assert deviation([], wanted, measure(1.0, 0.0)) == 0.0
    others = [dataclasses.replace(c, dimension="alone", seconds=(1e3,), units=c.units[-1:], spread=(0.0,)) for c in kept]
    assert deviation([*kept, *others], wanted, measure(1.0, 0.0)) == pytest.approx(0.0, abs=1e-9)
