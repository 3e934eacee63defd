"""The bound on what several devices gain, against what plans are predicted to gain."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.planning.choose import candidate_plans
from hetero_mtf.planning.choose import plan as make_plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.speed_up import largest_speed_up
from tests.planning.networks import pair_net, profile_of, with_rest

GRAPH = pair_net(24, 24, 24)


def shortest_s(profile: Profile) -> float:
    """Return the shortest step of the plans of all strategies."""
    return min(plan.predicted.step_s for plan in candidate_plans(Costs(profile)) if plan.predicted is not None)


@pytest.mark.parametrize(("speeds", "bound"), [([3e6], 1.0), ([1e6, 2e6], 1.5), ([2e6, 1e6, 1e6, 5e5], 2.25)])
def test_devices_whose_layers_differ_by_one_factor_gain_their_speeds_at_most(speeds: list[float], bound: float) -> None:
    assert largest_speed_up(profile_of(GRAPH, speeds)) == pytest.approx(bound)


def test_processors_on_one_device_count_as_often_as_they_are_listed() -> None:
    assert largest_speed_up(profile_of(GRAPH, [1e6, 1e6], same_device=True)) == 2.0


def test_a_device_counts_by_the_layer_that_suits_it_most() -> None:
    profile = profile_of(GRAPH, [1e6, 1e6])
    layer = max(curve.layer for curve in profile.curves)
    suited = [dataclasses.replace(c, seconds=tuple(s / 3 for s in c.seconds)) if (c.layer, c.device) == (layer, 1) else c
              for c in profile.curves]
    assert largest_speed_up(dataclasses.replace(profile, curves=tuple(suited))) == pytest.approx(2.0)  # beside the second device


def test_what_layers_take_while_other_devices_rest_changes_nothing() -> None:
    profile = profile_of(GRAPH, [2e6, 1e6])
    assert largest_speed_up(with_rest(profile, lambda device: 0.5)) == largest_speed_up(profile)


@given(st.lists(st.floats(2e5, 2e6), min_size=2, max_size=4), st.sampled_from([0.0, 1e-6, 1e-4]))
def test_no_plan_is_predicted_to_gain_more(speeds: list[float], latency_s: float) -> None:
    profile = profile_of(GRAPH, speeds, latency_s)
    alone = make_plan(profile, strategy="single").predicted
    assert alone is not None
    assert alone.step_s <= shortest_s(profile) * largest_speed_up(profile) * (1 + 1e-9)
