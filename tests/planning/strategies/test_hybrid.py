from __future__ import annotations

import dataclasses
import itertools

import pytest

from hetero_mtf.errors import NothingToSplitError, PlanError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.arrangement import BORDERS, arrange, trunk
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.strategies.hybrid import best_hybrid
from tests.planning.networks import Net, cluster_of, pair_net, profile_of, residual_net


def dense_net() -> LayerGraph:
    """Return what hybrids are for: convolutions on large images, then large dense layers."""
    net = Net((12, 12, 3))
    net.conv("first", 8)
    net.conv("second", 4, strides=[2, 2])
    net.add("Flatten", "flatten")
    net.dense("hidden", 200)
    net.dense("hidden_too", 160)
    net.dense("head", 10, activation="softmax")
    return net.graph()


def layouts_of(graph: LayerGraph, border: str) -> list[str]:
    return list(arrange(graph, border=border).layouts)


def test_the_trunk_ends_at_the_first_dense_behind_the_convolutions() -> None:
    assert trunk(dense_net()) == {0, 1, 2, 3}
    assert trunk(residual_net()) == set(range(len(residual_net().layers) - 1))


def test_a_dense_layer_that_leads_to_a_convolution_belongs_to_the_trunk() -> None:
    net = Net((4, 4, 3))
    net.dense("per_position", 6)
    net.conv("conv", 5)
    net.add("GlobalAveragePooling2D", "pool")
    net.dense("head", 5)
    assert trunk(net.graph()) == {0, 1, 2, 3}


def test_borders_begin_with_a_column_or_a_row_and_go_on_in_pairs() -> None:
    graph = dense_net()
    assert layouts_of(graph, "all_gather") == ["batch"] * 4 + ["column", "row", "replicated"]
    assert layouts_of(graph, "all_to_all") == ["batch"] * 4 + ["row", "column", "row"]


def test_a_softmax_alone_behind_the_trunk_is_a_row_at_either_border() -> None:
    net = Net((4, 4, 3))
    net.conv("conv", 5)
    net.add("GlobalAveragePooling2D", "pool")
    net.dense("head", 5, activation="softmax")
    assert [layouts_of(net.graph(), border)[-1] for border in BORDERS] == ["row", "row"]


def test_what_follows_a_dense_layer_that_splits_the_batch_splits_it_too() -> None:
    net = Net((4, 4, 3))
    net.conv("conv", 5)
    net.add("Flatten", "flatten")
    net.dense("hidden", 8)
    net.add("ReLU", "relu")
    net.dense("head", 5)
    assert arrange(net.graph(), border="all_gather", batched=frozenset({3})).layouts == ("batch",) * 5 + ("column",)


def test_typed_shares_split_samples_before_the_border_and_units_behind_it() -> None:
    plan = Plan.hybrid(dense_net(), [5, 0, 2, 1], cluster_of(4), 16)
    entries = {entry.name: entry for entry in plan.stages[0].layouts}
    assert plan.stages[0].devices == (0, 2, 3)
    assert entries["flatten"].samples == (10, 4, 2) and entries["flatten"].sizes == ()
    assert entries["hidden"].sizes == (125, 50, 25) == entries["hidden_too"].sizes
    plan.check(dense_net())


def test_a_batch_smaller_than_the_devices_leaves_them_their_units() -> None:
    stage = Plan.hybrid(dense_net(), [1, 1, 1], cluster_of(3), 2).stages[0]
    assert stage.devices == (0, 1, 2) and stage.layouts[0].samples == (1, 1, 0)


def test_a_network_without_dense_layers_has_no_hybrid() -> None:
    net = Net((4, 4, 3))
    net.conv("conv", 5)
    message = "no dense layer behind its convolutions, so a hybrid has nothing to split there; use Plan.batch or strategy batch"
    with pytest.raises(PlanError, match=message):
        Plan.hybrid(net.graph(), [1, 1], cluster_of(2), 8)
    with pytest.raises(NothingToSplitError, match=message):
        best_hybrid(Costs(profile_of(net.graph(), [1e6, 1e6])))


def test_a_hybrid_whose_dense_layers_are_all_shared_has_nothing_to_split() -> None:
    graph = pair_net()
    second = dataclasses.replace(graph.layers[4], name="head:2", shared_with=4)
    twice = LayerGraph((*graph.layers, second), graph.dtype, (4, 5))
    message = "no dense layer behind the convolutions can be split by channels; use Plan.batch or strategy batch"
    with pytest.raises(NothingToSplitError, match=message):
        Plan.hybrid(twice, [1, 1], cluster_of(2), 8)


def test_an_input_that_takes_no_time_is_split_evenly() -> None:
    net = Net((24,))
    net.dense("hidden", 60)
    net.dense("head", 10)
    stage = best_hybrid(Costs(profile_of(net.graph(), [1e6, 1e6], batch_size=8))).stage
    assert stage.layouts[0].samples == (4, 4)


def test_an_unknown_border_is_refused() -> None:
    with pytest.raises(PlanError, match="border 'fence' is unknown; use one of all_gather, all_to_all"):
        Plan.hybrid(dense_net(), [1, 1], cluster_of(2), 8, border="fence")


def test_a_hybrid_beats_batch_and_filters_where_weights_are_large_behind_large_images() -> None:
    net = Net((24, 24, 3))
    for number in range(4):
        net.conv(f"conv{number}", 8)
    net.conv("narrow", 4, strides=[4, 4])
    net.add("Flatten", "flatten")
    net.dense("hidden", 400)
    net.dense("head", 10)
    graph = net.graph()
    profile = profile_of(graph, [1e8, 1e8], 1e-5, 1e6, batch_size=8)
    found = best_hybrid(Costs(profile)).prediction.step_s
    others = (Plan.batch(graph, [1, 1], profile.cluster, 8), Plan.filters(graph, [1, 1], profile.cluster, 8))
    assert all(found < predict(Costs(profile), other.stages[0]).step_s for other in others)


@pytest.mark.parametrize("speeds", [[1e6, 1e6], [3e6, 1e6], [1e6, 9e5, 1e5]])
@pytest.mark.parametrize("graph", [dense_net(), pair_net()])
def test_a_measured_hybrid_is_never_predicted_slower_than_a_typed_one(graph: LayerGraph, speeds: list[float]) -> None:
    profile = profile_of(graph, speeds, 1e-5, 1e7, batch_size=9)
    costs = Costs(profile)
    found = best_hybrid(costs).prediction.step_s
    for shares, border in itertools.product(([1.0] * len(speeds), speeds), BORDERS):
        typed = Plan.hybrid(graph, shares, profile.cluster, 9, border=border)
        assert found <= predict(costs, typed.stages[0]).step_s * 1.02


def test_a_small_last_layer_is_not_split_where_a_message_costs_more() -> None:
    graph = dense_net()
    stage = best_hybrid(Costs(profile_of(graph, [1e7, 1e7], 1e-2, 1e7, batch_size=8))).stage
    kinds = {entry.layout for entry in stage.layouts}
    assert stage.layouts[-1].layout in ("replicated", "batch") and kinds & {"column", "row"}


def test_permuting_devices_permutes_samples_and_units() -> None:
    graph, speeds, order = dense_net(), [2.1e6, 1.2e6, 5.3e5], (2, 0, 1)
    found, other = (best_hybrid(Costs(profile_of(graph, s, 1e-5, 1e8, batch_size=30))).stage for s in (speeds, [speeds[d] for d in order]))
    for one, two in zip(found.layouts, other.layouts):
        for name in ("samples", "sizes"):
            before, after = getattr(one, name), getattr(two, name)
            assert after == tuple(before[d] for d in order) if before else not after


def test_calls_of_one_layer_hold_its_variables_alike() -> None:
    graph = pair_net()
    second = dataclasses.replace(graph.layers[4], name="head:2", shared_with=4)
    twice = LayerGraph((*graph.layers, second), graph.dtype, (4, 5))
    assert arrange(twice).layouts[4:] == ("replicated", "replicated")
    cluster = cluster_of(2)
    Plan.batch(twice, [1, 1], cluster, 4).check(twice)
    plan = Plan.filters(twice, [1, 1], cluster, 4)
    plan.check(twice)
    (stage,) = plan.stages
    entries = (*stage.layouts[:5], dataclasses.replace(stage.layouts[5], layout="column", sizes=(3, 2)))
    wrong = dataclasses.replace(plan, stages=(dataclasses.replace(stage, layouts=entries),))
    message = r"layouts\[5\].layout: is column \[3, 2\], head:2 shares its variables with head, which is replicated \[\]; they must agree"
    with pytest.raises(PlanError, match=message):
        wrong.check(twice)
