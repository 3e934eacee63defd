"""The ceiling that communication leaves is that of balanced compute, and of what layouts send."""

from __future__ import annotations

import doctest

import pytest

import hetero_mtf as hm
from tests.planning.networks import cluster_of, pair_net, profile_of
from tools.bench.comparison import ceiling
from tools.bench.comparison.ceiling import balanced_step_s, communication_ceilings


def test_the_examples_hold() -> None:
    examples = doctest.testmod(ceiling)
    assert examples.attempted and not examples.failed


@pytest.mark.parametrize("own_s", [[0.0, 0.0, 0.0], [0.2, 0.1, 0.3]])
def test_balanced_devices_finish_together_and_do_all_of_the_work(own_s: list[float]) -> None:
    divided_s = [1.0, 2.0, 3.0]
    step_s = balanced_step_s(own_s, divided_s)
    assert sum((step_s - own) / divided for own, divided in zip(own_s, divided_s)) == pytest.approx(1.0)


def test_a_step_takes_no_less_than_what_is_not_divided() -> None:
    assert balanced_step_s([0.5, 4.0], [1.0, 1.0]) == 4.0
    assert balanced_step_s([0.5, 0.7], [0.0, 0.0]) == 0.7


def test_without_communication_a_split_of_the_samples_falls_short_of_the_ideal_by_the_update_alone() -> None:
    graph, cluster = pair_net(), cluster_of(2)
    profile = profile_of(graph, [2e6, 1e6], latency_s=0.0, bandwidth=1e30)
    alone_s = [1.0, 2.0]
    batch = {"batch": hm.Plan.batch(graph, [2, 1], cluster, 4)}
    ceilings = communication_ceilings(profile, batch, alone_s)
    assert ceilings["single"] == pytest.approx(2 / 3)
    assert 0.9 < ceilings["batch"] < 1.0  # the update takes a tenth of a forward pass


@pytest.mark.slow
def test_slower_links_lower_the_ceiling_of_every_split_and_not_that_of_one_device() -> None:
    graph = pair_net()
    fast, slow = (communication_ceilings(profile_of(graph, [2e6, 1e6], 0.0, rate), {}, [1.0, 2.0]) for rate in (1e12, 1e3))
    assert set(fast) == set(slow) and {"single", "batch", "filters", "equal"} <= set(fast)
    assert fast["single"] == slow["single"] and slow["batch"] < fast["batch"] < 1.0 and slow["equal"] < fast["equal"] < 1.0


def test_plans_of_one_device_and_pipelines_have_no_ceiling_of_their_own() -> None:
    graph, cluster = pair_net(), cluster_of(2)
    plans = {"alone": hm.Plan.single(graph, 0, cluster, 4), "piped": hm.Plan.pipeline(graph, [0, 2], [[0], [1]], [[1], [1]], cluster, 4)}
    assert {"alone", "piped"}.isdisjoint(communication_ceilings(profile_of(graph, [2e6, 1e6]), plans, [1.0, 2.0]))
