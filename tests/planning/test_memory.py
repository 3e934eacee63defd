from __future__ import annotations

import dataclasses

import pytest

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.memory import lack_of_memory, optimizer_name, stage_memory_bytes
from hetero_mtf.planning.plan import Plan
from tests.planning.networks import cluster_of, pair_net, profile_of

GRAPH = pair_net()


def test_one_device_holds_every_variable_slot_and_what_the_backward_pass_needs() -> None:
    profile = profile_of(GRAPH, [1e6])
    stage = Plan.single(GRAPH, 0, profile.cluster, 4).stages[0]
    weights = sum(v.size for layer in GRAPH.layers for v in layer.variables)
    kept = [9 * 9 * 3, 9 * 9 * 12, 9 * 9 * 10, 5]  # Flatten is a view
    gradients = 9 * 9 * 12 + 9 * 9 * 10
    assert stage_memory_bytes(profile, stage) == (4 * (3 * weights + 4 * (sum(kept) + gradients)),)


def test_adam_holds_one_slot_more_than_sgd() -> None:
    profile = profile_of(GRAPH, [1e6])
    stage = Plan.single(GRAPH, 0, profile.cluster, 4).stages[0]
    weights = sum(v.size for layer in GRAPH.layers for v in layer.variables)
    other = dataclasses.replace(profile, optimizer="Adam")
    assert stage_memory_bytes(other, stage)[0] - stage_memory_bytes(profile, stage)[0] == 4 * weights


def test_a_split_holds_less_on_each_device_and_less_where_the_share_is_less() -> None:
    profile = profile_of(GRAPH, [1e6, 1e6])
    alone = stage_memory_bytes(profile, Plan.single(GRAPH, 0, profile.cluster, 4).stages[0])[0]
    large, small = stage_memory_bytes(profile, Plan.filters(GRAPH, [3, 1], profile.cluster, 4).stages[0])
    assert small < large < alone


def test_a_split_batch_holds_all_weights_and_outputs_by_samples() -> None:
    profile = profile_of(GRAPH, [1e6, 1e6])
    alone = stage_memory_bytes(profile, Plan.single(GRAPH, 0, profile.cluster, 4).stages[0])[0]
    weights = 4 * 3 * sum(v.size for layer in GRAPH.layers for v in layer.variables)
    large, small = stage_memory_bytes(profile, Plan.batch(GRAPH, [3, 1], profile.cluster, 4).stages[0])
    assert large == weights + (alone - weights) * 3 / 4 and small == weights + (alone - weights) / 4


def test_two_axes_hold_a_columns_weights_and_a_rows_outputs_of_them() -> None:
    profile = profile_of(GRAPH, [1e6] * 4)
    stage = Plan.grid(GRAPH, [3, 1], [1, 1], profile.cluster, 4).stages[0]
    filters = stage_memory_bytes(profile, Plan.filters(GRAPH, [1, 1, 0, 0], profile.cluster, 4).stages[0])
    held = stage_memory_bytes(profile, stage)
    assert held[0] < filters[0] and held[2] < held[0] and held[0] + held[2] > filters[0]


def test_weights_that_two_calls_share_are_held_once() -> None:
    again = dataclasses.replace(GRAPH.layers[4], name="head:2", shared_with=4)
    twice = LayerGraph((*GRAPH.layers, again), GRAPH.dtype, (4, 5))
    held = [
        stage_memory_bytes(profile_of(graph, [1e6]), Plan.single(graph, 0, profile_of(graph, [1e6]).cluster, 4).stages[0])[0]
        for graph in (GRAPH, twice)
    ]
    assert held[1] - held[0] == 4 * 4 * 5


def test_devices_of_one_pool_draw_on_it_together() -> None:
    profile = profile_of(GRAPH, [1e6, 1e6])
    stage = Plan.even(GRAPH, cluster_of(2), 4).stages[0]
    needed = sum(stage_memory_bytes(profile, stage))
    assert lack_of_memory(profile_of(GRAPH, [1e6, 1e6], memory_bytes=needed), stage) == ""
    lack = lack_of_memory(profile_of(GRAPH, [1e6, 1e6], memory_bytes=needed // 2), stage)
    assert lack.startswith("needs ") and "of memory host, which has" in lack


class AdamW:
    pass


@pytest.mark.parametrize(("given", "name"), [("SGD", "sgd"), ("adam(0.001)", "adam"), (AdamW(), "adamw"), ("", "")])
def test_an_optimizer_is_known_by_its_name(given: object, name: str) -> None:
    assert optimizer_name(given) == name
