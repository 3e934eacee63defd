"""The plan that training begins with, by a rough profile."""

from __future__ import annotations

import math

import pytest

from hetero_mtf.planning.choose import plan as make_plan
from hetero_mtf.planning.exploration.candidates import CLEAR_ERRORS, first_plan
from hetero_mtf.planning.exploration.records import ROUGH_ERROR
from tests.planning.networks import pair_net, profile_of

GRAPH = pair_net(48, 48, 48)


@pytest.mark.parametrize("devices", [2, 3, 4, 6])
def test_training_begins_on_several_devices_only_where_they_are_faster_by_more_than_a_rough_prediction_may_err(devices: int) -> None:
    profile = profile_of(GRAPH, [1e6] * devices, 1e-6)
    best, alone = make_plan(profile), make_plan(profile, strategy="single")
    assert best.predicted is not None and alone.predicted is not None
    is_clear = alone.predicted.step_s / best.predicted.step_s > math.exp(CLEAR_ERRORS * ROUGH_ERROR)
    chosen = first_plan(profile)
    assert chosen.built_from == (best if is_clear else alone).built_from


def test_some_of_these_clusters_are_clear_and_some_are_not() -> None:
    used = [len(first_plan(profile_of(GRAPH, speeds, 1e-6)).used) for speeds in ([1e6, 3e5], [1e6] * 6)]
    assert used[0] == 1 < used[1]
