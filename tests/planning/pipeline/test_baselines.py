"""The pipelines that a pipeline is to be better than."""

from __future__ import annotations

import dataclasses

import pytest

from hetero_mtf.planning.pipeline.baselines import equal_pipeline, simpler_pipelines
from hetero_mtf.planning.plan.plan import Plan
from tests.planning.networks import Net, cluster_of, residual_net


def four() -> Net:
    net = Net()
    for at in range(4):
        net.conv(f"conv{at}", 8)
    return net


GRAPH, CLUSTER = four().graph(), cluster_of(6)


def typed(second: str, devices: list[list[int]], shares: list[list[int]], **options: object) -> Plan:
    return Plan.pipeline(GRAPH, ["conv0", second], devices, shares, CLUSTER, 8, microbatches=4, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{}, {"schedule": "fill_drain", "recompute": True}, {"split": "batch"}])
def test_the_equal_cut_has_equal_blocks_on_the_same_devices_in_equal_shares(options: dict[str, object]) -> None:
    made = dataclasses.replace(typed("conv3", [[1, 0], [2]], [[3, 1], [1]], **options), what_if=("twice the bandwidth",))
    plain = typed("conv2", [[1, 0], [2]], [[1, 1], [1]], **options)
    assert equal_pipeline(GRAPH, made) == dataclasses.replace(plain, what_if=("twice the bandwidth",))


def test_replicas_share_samples_equally_in_the_equal_cut() -> None:
    made = typed("conv1", [[0, 1, 2, 3], [4, 5]], [[3, 1], [1]], replicas=[5, 3])
    assert equal_pipeline(GRAPH, made) == typed("conv2", [[0, 1, 2, 3], [4, 5]], [[1, 1], [1]], replicas=[4, 4])


def test_replicas_with_unequal_numbers_of_devices_get_as_many_as_the_one_with_the_fewest() -> None:
    made = typed("conv1", [[0, 1, 2, 3], [4, 5]], [[1, 1], [1]], replicas=[7, 1], split="batch")
    assert len(made.stages[0].devices) == 3, "a device without samples is left out"
    equal = equal_pipeline(GRAPH, made)
    assert equal is not None and [stage.devices for stage in equal.stages] == [(0, 1), (4, 5)] and equal.replicas == (4, 4)


def test_devices_with_two_stages_keep_both_places() -> None:
    made = Plan.pipeline(GRAPH, [1, 2, 3, 4], [[0], [1], [0], [1]], [[1]] * 4, CLUSTER, 8, microbatches=2, schedule="interleaved")
    assert equal_pipeline(GRAPH, made) == made
    assert list(simpler_pipelines(GRAPH, made)) == ["equal partition into 4 stages", "same stages, no microbatches"]


def test_what_was_reckoned_of_a_plan_is_not_said_of_simpler_ones() -> None:
    made = dataclasses.replace(typed("conv3", [[0], [1]], [[1], [1]]), depths=(2, 1))
    for other in simpler_pipelines(GRAPH, made).values():
        assert (other.predicted, other.proof, other.alternatives, other.contributions, other.depths) == (None, None, (), (), ())


def test_plans_of_one_stage_or_without_microbatches_have_fewer_simpler_ones() -> None:
    assert simpler_pipelines(GRAPH, Plan.filters(GRAPH, [1] * 6, CLUSTER, 8)) == {}
    assert list(simpler_pipelines(GRAPH, dataclasses.replace(typed("conv1", [[0], [1]], [[1], [1]]), microbatches=1))) == [
        "equal partition into 2 stages"
    ]


def test_there_is_no_equal_cut_into_more_stages_than_blocks() -> None:
    graph = residual_net(8)
    starts = [index for index in range(1, len(graph.layers))]
    devices = [[at % 6] for at in range(len(starts))]
    made = Plan.pipeline(graph, starts, devices, [[1]] * len(starts), CLUSTER, 8, microbatches=2, schedule="interleaved")
    assert equal_pipeline(graph, made) is None and list(simpler_pipelines(graph, made)) == ["same stages, no microbatches"]
