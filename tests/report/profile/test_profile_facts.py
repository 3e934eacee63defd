from __future__ import annotations

import dataclasses
import json

import pytest

from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.solvers.apportionment import proportional
from hetero_mtf.report.plan_facts import step_times
from hetero_mtf.report.profile.profile_facts import heaviest_layers, profile_facts, step_flops
from tests.planning.networks import frozen, pair_net, profile_of, with_rest
from tools.generated.profiles import Figures, generated_profile

GRAPH = pair_net(64, 48, 24)
PROFILE = generated_profile(GRAPH, [Figures(2e9, start_s=0.0, tile=1), Figures(1e9, 1e10, start_s=0.0, tile=1)], batch_size=30)


def test_a_device_of_half_the_figures_has_half_the_speed() -> None:
    fast, slow = profile_facts(PROFILE).devices
    assert (fast.relative_speed, slow.relative_speed) == (1.0, pytest.approx(0.5))
    assert fast.samples_per_s == pytest.approx(30 / fast.step_s)
    assert [layer.flops_per_s for layer in slow.layers] == pytest.approx([(layer.flops_per_s or 0.0) / 2 for layer in fast.layers])


@pytest.mark.slow
def test_samples_per_second_are_those_of_the_predicted_step_on_the_device_alone() -> None:
    profile = with_rest(dataclasses.replace(PROFILE, launch_s=0.25), lambda device: 0.5)
    times = step_times(plan(profile), Costs(profile))
    assert [device.step_s for device in profile_facts(profile).devices] == [entry.predicted_s for entry in times.alone]


def test_the_speed_of_a_layer_is_its_operations_over_its_seconds() -> None:
    profile = profile_of(GRAPH, [4e6, 1e6], batch_size=8)
    for device, speed in zip(profile_facts(profile).devices, (4e6, 1e6)):
        second, first, head = device.layers
        assert (second.layer, first.layer, head.layer) == ("second", "first", "head")
        # forward and backward take 3 times the forward seconds, in which as many operations are done where inputs need a gradient
        assert second.flops_per_s == pytest.approx(speed) and first.flops_per_s == pytest.approx(speed * 2 / 3)


def test_backward_operations_are_those_of_the_gradients_that_are_needed() -> None:
    costs = Costs(profile_of(GRAPH, [1e6], batch_size=8))
    forward = [layer.flops * 8 for layer in GRAPH.layers]
    assert step_flops(costs, 1) == 2 * forward[1] and step_flops(costs, 2) == 3 * forward[2]
    still = Costs(profile_of(frozen(GRAPH), [1e6], batch_size=8))
    assert step_flops(still, 2) == forward[2]
    assert [costs.graph.layers[layer].name for layer in heaviest_layers(costs)] == ["second", "first", "head"]


def test_shares_are_in_proportion_to_the_speeds() -> None:
    facts = profile_facts(PROFILE)
    speeds = [device.relative_speed or 0.0 for device in facts.devices]
    assert [(share.of, share.sizes) for share in facts.shares] == [
        ("30 samples", proportional(30, speeds).sizes),
        ("48 filters of second", proportional(48, speeds).sizes),
    ]
    assert facts.shares[0].sizes == (20, 10)


def test_the_gain_is_that_of_the_auto_plan() -> None:
    best, gain = plan(PROFILE), profile_facts(PROFILE).gain
    assert best.predicted is not None and gain is not None
    times = step_times(best, Costs(PROFILE))
    assert (gain.strategy, gain.step_s, gain.single) == (best.strategy, best.predicted.step_s, "device:0")
    assert gain.times_single == pytest.approx((times.alone[0].predicted_s or 0.0) / best.predicted.step_s)
    assert gain.times_equal == gain.equal_s / gain.step_s and gain.of_ideal == times.efficiency(measured=False)


def test_where_there_is_no_plan_the_reason_is_told() -> None:
    alone = profile_facts(profile_of(GRAPH, [1e6]))
    assert alone.gain is None and "one device" in alone.no_gain
    full = profile_facts(profile_of(GRAPH, [1e6, 1e6], memory_bytes=1))
    assert full.gain is None and "no plan fits in memory" in full.no_gain
    many = profile_facts(profile_of(GRAPH, [1e6] * 17))
    assert many.gain is None and "hetero-mtf plan" in many.no_gain and len(many.devices) == 17


def test_the_spread_is_that_of_the_measurements_that_matter() -> None:
    curves = list(profile_of(GRAPH, [1e6, 1e6]).curves)
    longest = max((curve for curve in curves if curve.device == 0), key=lambda curve: curve.seconds[-1])
    noisy = dataclasses.replace(longest, spread=(0.1,) * (len(longest.units) - 1) + (0.5,))
    profile = dataclasses.replace(PROFILE, cluster=profile_of(GRAPH, [1.0, 1.0]).cluster, graph=GRAPH, batch_size=4, links=(), memory=())
    profile = dataclasses.replace(profile, curves=tuple(noisy if curve is longest else curve for curve in curves))
    quiet, loud = profile_facts(profile).devices[1], profile_facts(profile).devices[0]
    assert (loud.worst_spread, quiet.worst_spread, quiet.spread) == (0.5, 0.0, 0.0)


def test_the_facts_are_json() -> None:
    facts = profile_facts(PROFILE)
    document = json.loads(json.dumps(facts.to_json(), allow_nan=False))
    assert document["kind"] == "profile_facts" and document["devices"][1]["relative_speed"] == facts.devices[1].relative_speed
    assert document["links"][0]["bandwidth_bytes_per_s"] == PROFILE.links[0].bandwidth_bytes_per_s
    assert document["gain"]["step_s"] == facts.gain.step_s if facts.gain is not None else False


def test_a_profile_in_which_nothing_takes_time_has_no_speeds() -> None:
    idle = dataclasses.replace(PROFILE, curves=tuple(dataclasses.replace(c, seconds=(0.0,) * len(c.units)) for c in PROFILE.curves))
    facts = profile_facts(idle)
    assert facts.devices[0].samples_per_s is None and facts.shares == () and facts.gain is None
    assert json.dumps(facts.to_json(), allow_nan=False)
