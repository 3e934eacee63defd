from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.manual import batch_stage, single_stage
from hetero_mtf.planning.profile.curve import Curve
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.strategies.batch import best_batch
from tests.planning.networks import pair_net, profile_of, residual_net

GRAPH = pair_net()


def stairs(profile: Profile, device: int, step: int) -> Profile:
    """Return the profile with a device whose seconds rise only every `step` samples."""
    batch, made = profile.batch_size, []
    for curve in profile.curves:
        if curve.device == device and curve.dimension == "output" and curve.step_pass != "update":
            units = tuple(range(1, batch + 1))
            seconds = tuple(curve.seconds[-1] * -(-u // step) * step / batch for u in units)
            made.append(Curve(curve.layer, device, "batch", curve.step_pass, batch, units, seconds, (0.0,) * batch))
    return dataclasses.replace(profile, curves=profile.curves + tuple(made))


def brute_force_s(profile: Profile) -> float:
    """Return the least predicted seconds of all splits of the batch over two devices or more."""
    costs, count, batch = Costs(profile), len(profile.cluster.devices), profile.batch_size
    splits = (s for s in itertools.product(range(batch + 1), repeat=count) if sum(s) == batch and sum(n > 0 for n in s) > 1)
    return min(predict(costs, batch_stage(costs.graph, samples, range(count))).step_s for samples in splits)


@pytest.mark.fast("speeds0-0.0", "speeds0-0.001", "speeds0-0.1", "speeds2-0.0", "speeds2-0.001", "speeds2-0.1")
@pytest.mark.parametrize("latency_s", [0.0, 1e-3, 0.1])
@pytest.mark.parametrize("speeds", [[1e6, 1e6], [1.7e6, 1e6, 3e5], [1e6, 1e4]])
def test_samples_are_those_that_brute_force_finds(speeds: list[float], latency_s: float) -> None:
    profile = profile_of(GRAPH, speeds, latency_s, 1e8, batch_size=9)
    found = best_batch(Costs(profile))
    assert len(found.stage.devices) == 1 or found.prediction.step_s == pytest.approx(brute_force_s(profile))


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 20), min_size=2, max_size=3), st.integers(1, 4), st.integers(2, 7))
def test_a_curve_in_stairs_is_split_exactly_too(speeds: list[int], step: int, batch: int) -> None:
    profile = stairs(profile_of(GRAPH, [1e5 * s for s in speeds], 1e-4, 1e8, batch_size=batch), 0, step)
    found = best_batch(Costs(profile))
    assert len(found.stage.devices) == 1 or found.prediction.step_s == pytest.approx(brute_force_s(profile))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_permuting_devices_permutes_their_samples(order: tuple[int, ...]) -> None:
    speeds = [1.1e6, 9e5, 7.3e5]
    found, other = (
        best_batch(Costs(profile_of(GRAPH, chosen, 1e-4, batch_size=40))).stage for chosen in (speeds, [speeds[d] for d in order])
    )
    assert sum(found.layouts[0].samples) == 40 and other.layouts[0].samples == tuple(found.layouts[0].samples[d] for d in order)


@pytest.mark.parametrize("graph", [GRAPH, residual_net()])
@pytest.mark.parametrize("speeds", [[1e6, 1e6], [1e6, 9e5, 1e5], [1e6] * 7])
def test_a_measured_split_is_never_predicted_slower_than_an_equal_one(graph, speeds: list[float]) -> None:  # type: ignore[no-untyped-def]
    profile = profile_of(graph, speeds, 1e-4, 1e8, batch_size=11)
    count = len(speeds)
    equal = batch_stage(graph, [11 // count + (d < 11 % count) for d in range(count)], range(count))
    assert best_batch(Costs(profile)).prediction.step_s <= predict(Costs(profile), equal).step_s * (1 + 1e-9)


def test_a_device_too_slow_for_one_sample_or_behind_a_slow_link_is_left_out() -> None:
    profile = profile_of(GRAPH, [1e6, 1e6, 1e3], 1e-5, batch_size=8)
    assert best_batch(Costs(profile)).stage.devices == (0, 1)
    far = [dataclasses.replace(link, latency_s=10.0) if 0 in (link.source, link.destination) else link for link in profile.links]
    slow = dataclasses.replace(profile_of(GRAPH, [1e6] * 3, 1e-5, batch_size=8), links=tuple(far))
    assert best_batch(Costs(slow)).stage.devices == (1, 2)


def test_one_sample_and_one_device_are_that_device_alone() -> None:
    for profile in (profile_of(GRAPH, [1e6, 2e6], batch_size=1), profile_of(GRAPH, [1e6], batch_size=5)):
        fastest = len(profile.cluster.devices) - 1
        assert best_batch(Costs(profile)).stage == single_stage(GRAPH, fastest)


def test_mixing_weights_counts_each_devices_own_update() -> None:
    profile = profile_of(GRAPH, [1e6, 5e5], 1e-4, 1e8, batch_size=12)
    slow = [dataclasses.replace(c, seconds=(1e2, 1e2)) if (c.device, c.step_pass) == (1, "update") else c for c in profile.curves]
    costs = Costs(dataclasses.replace(profile, curves=tuple(slow)))
    added, mixed = best_batch(costs), best_batch(costs, "butterfly_mixing")
    assert added.stage.layouts[0].samples == (8, 4)
    assert mixed.stage == single_stage(GRAPH, 0)  # device 1 would not be done with its update before device 0 has done everything
