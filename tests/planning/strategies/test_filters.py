from __future__ import annotations

import dataclasses
import itertools

import pytest

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.arrangement import arrange
from hetero_mtf.planning.layout.manual import sized_stage
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.strategies.filters import best_filters
from tests.planning.networks import Net, pair_net, profile_of, residual_net


def one_pair(filters: int = 9) -> LayerGraph:
    net = Net((6, 6, 3))
    net.conv("column", filters)
    net.conv("row", 4)
    return net.graph()


def test_free_links_give_sizes_in_proportion_to_speed() -> None:
    graph = pair_net(60, 60, 60)
    found = best_filters(Costs(profile_of(graph, [2e6, 1e6])))
    assert [entry.sizes for entry in found.stage.layouts] == [(), (40, 20), (40, 20), (), (40, 20)]


@pytest.mark.parametrize("latency_s", [0.0, 0.01])
def test_the_sizes_of_one_pair_are_those_that_brute_force_finds(latency_s: float) -> None:
    graph = one_pair()
    profile = profile_of(graph, [1.3e6, lambda s: 1e-3 * (s > 0) + s / 7e5, 3e5], latency_s=latency_s)
    costs, arrangement = Costs(profile), arrange(graph)
    steps = []
    for sizes in itertools.product(range(10), repeat=3):
        if sum(sizes) == 9 and min(sizes) > 0:
            steps.append(predict(costs, sized_stage(graph, arrangement, [sizes], range(3), 0)).step_s)
    assert best_filters(costs).prediction.step_s <= min(steps) * (1 + 1e-9)


def test_a_device_too_slow_to_help_is_left_out() -> None:
    graph = pair_net(24, 24, 24)
    found = best_filters(Costs(profile_of(graph, [1e6, 1e6, 1e3], latency_s=1e-5)))
    assert found.stage.devices == (0, 1)


def test_a_device_behind_a_slow_link_is_left_out_although_it_is_fast() -> None:
    graph = pair_net(24, 24, 24)
    profile = profile_of(graph, [1e6, 1e6, 1e6], latency_s=1e-5)
    slow = [dataclasses.replace(link, latency_s=10.0) if 2 in (link.source, link.destination) else link for link in profile.links]
    found = best_filters(Costs(dataclasses.replace(profile, links=tuple(slow))))
    assert found.stage.devices == (0, 1)


def test_a_layer_too_small_to_be_worth_a_message_is_kept_whole() -> None:
    net = Net((16, 16, 3))
    net.conv("large", 64)
    net.conv("large_too", 64)
    net.add("GlobalAveragePooling2D", "pool")
    net.dense("tiny", 3)
    graph = net.graph()
    found = best_filters(Costs(profile_of(graph, [1e9, 1e9], latency_s=1e-3)))
    layouts = {entry.name: entry.layout for entry in found.stage.layouts}
    assert (layouts["large"], layouts["large_too"], layouts["tiny"]) == ("column", "row", "replicated")


def test_two_devices_stay_in_even_where_one_alone_would_be_faster() -> None:
    found = best_filters(Costs(profile_of(pair_net(), [1e6, 1e6], latency_s=100.0)))
    assert len(found.stage.devices) == 2


@pytest.mark.fast(
    '0.0-speeds0-graph0',
    '0.0-speeds0-graph1',
    '0.0-speeds0-graph2',
    '0.0-speeds1-graph0',
    '0.0-speeds1-graph2',
    '0.0-speeds2-graph0',
    '0.0-speeds2-graph2',
    '0.001-speeds0-graph0',
    '0.001-speeds0-graph1',
    '0.001-speeds0-graph2',
    '0.001-speeds1-graph0',
    '0.001-speeds1-graph2',
    '0.001-speeds2-graph0',
    '0.001-speeds2-graph2',
)
@pytest.mark.parametrize("graph", [pair_net(), residual_net(), one_pair(40)])
@pytest.mark.parametrize("speeds", [[1e6], [1e6, 1e6], [1e6, 5e5, 1e5]])
@pytest.mark.parametrize("latency_s", [0.0, 1e-3])
def test_measured_sizes_are_never_predicted_slower_than_typed_ones(graph: LayerGraph, speeds: list[float], latency_s: float) -> None:
    profile = profile_of(graph, speeds, latency_s, 1e8)
    costs = Costs(profile)
    best_s = best_filters(costs).prediction.step_s
    for plan in (Plan.equal(graph, profile.cluster, 4), Plan.filters(graph, speeds, profile.cluster, 4)):
        assert best_s <= predict(costs, plan.stages[0]).step_s * 1.02
    plan = Plan(graph.digest, graph.dtype, 4, "filters", tuple(d.name for d in profile.cluster.devices), (best_filters(costs).stage,))
    plan.check(graph)


@pytest.mark.fast("order4")
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_permuting_devices_permutes_what_they_get(order: tuple[int, ...]) -> None:
    graph, speeds = pair_net(30, 30, 30), [1.1e6, 6e5, 2.3e5]
    found = best_filters(Costs(profile_of(graph, speeds, latency_s=1e-4))).stage
    other = best_filters(Costs(profile_of(graph, [speeds[d] for d in order], latency_s=1e-4))).stage
    assert other.layouts[1].sizes == tuple(found.layouts[1].sizes[d] for d in order)
