from __future__ import annotations

import numpy as np
import pytest

from hetero_mtf.layers import kind_of
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.arrangement import split_units
from hetero_mtf.planning.layout_search.layout_space import VECTORS, LayoutState, Space, arrangements, flattened, layout_space, state_of
from hetero_mtf.planning.solvers.apportionment import minimise_maximum
from hetero_mtf.planning.strategies.filters import best_filters
from tests.planning.layout_objective import drawn_graph, drawn_profile
from tests.planning.networks import Net, pair_net, profile_of, residual_net


@pytest.mark.fast("1", "3", "4", "5", "6", "8", "9")
@pytest.mark.parametrize("seed", range(10))
def test_every_state_is_legal_and_deals_out_all_units_or_samples(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = drawn_graph(rng, int(rng.integers(4, 14)))
    costs = Costs(drawn_profile(rng, graph))
    devices = tuple(range(len(costs.profile.cluster.devices)))
    space = layout_space(costs, devices)
    assert space.devices == devices and len(space.states) == len(graph.layers)
    for index, states in enumerate(space.states):
        assert states[0] == LayoutState("replicated") and len(set(states)) == len(states)
        for layout, sizes, samples, *_ in states:
            vector = sizes + samples
            assert layout == "batch" or layout in kind_of(graph.layers[index]).layouts(graph.layers[index])
            units = {"replicated": 0, "batch": costs.profile.batch_size}.get(layout, -1)
            assert sum(vector) == (split_units(graph, index, layout, costs.counts) if units < 0 else units)
            assert len(vector) in (0, len(devices)) and min(vector, default=0) >= 0
        assert all(sum(state.layout == other.layout for other in states) <= VECTORS for state in states)


def test_the_sizes_of_a_pair_are_the_exact_ones_and_charged_at_its_slowest_device() -> None:
    costs = Costs(profile_of(pair_net(24, 24, 24), [2e6, 1e6, 1.5e6]))
    space = layout_space(costs, (0, 1, 2))
    rows = costs.summed_rows([(1, "column"), (2, "row")])
    best = minimise_maximum(rows, 24).sizes
    assert LayoutState("column", best) in space.states[1] and LayoutState("row", best) in space.states[2]
    assert space.slowest[1, LayoutState("column", best)] == int(rows[[0, 1, 2], list(best)].argmax())


def test_what_other_strategies_found_on_the_same_devices_is_in_the_space() -> None:
    costs = Costs(profile_of(residual_net(16), [2e6, 1e6], 1e-6))
    known = best_filters(costs).stage
    space = layout_space(costs, known.devices, [known])
    assert all(state_of(entry) in space.states[entry.layer] for entry in known.layouts)
    assert layout_space(costs, (0,), [known]).states == layout_space(costs, (0,)).states


def test_by_memory_there_are_even_sizes_too() -> None:
    costs = Costs(profile_of(pair_net(24, 24, 24), [3e6, 1e6]))
    assert LayoutState("column", (12, 12)) not in layout_space(costs, (0, 1)).states[1]
    assert LayoutState("column", (12, 12)) in layout_space(costs, (0, 1), by_memory=True).states[1]


def test_a_flattened_tensor_is_split_only_where_nothing_else_can_need_it_whole() -> None:
    net = Net()
    net.conv("conv", 8)
    inner = net.add("Flatten", "inner")
    net.dense("dense", 4, [inner])
    graph = net.graph()
    costs = Costs(profile_of(graph, [1e6, 1e6]))
    assert flattened(graph, costs.counts) == {inner: True}
    ends = Net()
    ends.conv("conv", 8)
    last = ends.add("Flatten", "last")
    out = ends.graph()
    assert flattened(out, Costs(profile_of(out, [1e6, 1e6])).counts) == {last: False}
    states = layout_space(Costs(profile_of(out, [1e6, 1e6])), (0, 1)).states[last]
    assert {state.layout for state in states} == {"replicated", "batch"}


def test_arrangements_are_pairs_gathered_and_the_borders_where_there_is_one() -> None:
    assert len(arrangements(pair_net())) == 4
    net = Net()
    net.conv("only", 8)
    assert len(arrangements(net.graph())) == 2


def test_a_state_is_a_layout_of_a_layer() -> None:
    space = Space((0, 1), (), {})
    batch, row = (space.entry(3, "a", state) for state in (LayoutState("batch", samples=(2, 1)), LayoutState("row", (2, 1))))
    assert (batch.sizes, batch.samples) == ((), (2, 1)) and (row.sizes, row.samples) == ((2, 1), ())
