from __future__ import annotations

import dataclasses

import pytest

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.manual import filter_stage
from hetero_mtf.planning.layout.records import Prediction, Stage
from hetero_mtf.planning.strategies.split_search import (
    Candidate,
    Sizer,
    SplitConfiguration,
    descend,
    device_sets,
    remembered,
    tries,
    with_full_prediction,
    without_each,
)
from tests.planning.networks import pair_net, profile_of


def costing(step_s: float, devices: tuple[int, ...]) -> Candidate:
    return Candidate(Stage((), devices, (("devices", len(devices)),), ()), Prediction(step_s, 0.0, 0.0, 0.0, ()))


def with_one_replicated(choice: SplitConfiguration) -> list[SplitConfiguration]:
    return [dataclasses.replace(choice, replicated=frozenset({layer})) for layer in range(4)]


def test_all_sets_of_two_or_more_are_tried_up_to_six_devices_then_everyone() -> None:
    assert device_sets(3) == [(0, 1, 2), (0, 1), (0, 2), (1, 2)]
    assert [len(device_sets(count)) for count in (1, 2, 6, 7)] == [1, 1, 2**6 - 7, 1]


def test_the_descent_takes_every_change_that_helps_and_no_other() -> None:
    gain = {0: -1.0, 1: 2.0, 2: -3.0, 3: 0.0}
    evaluated: list[SplitConfiguration] = []

    def candidate(choice: SplitConfiguration) -> Candidate:
        evaluated.append(choice)
        return costing(100 + sum(gain[layer] for layer in choice.replicated), choice.devices)

    best = descend([SplitConfiguration("pairs", (0, 1))], candidate, with_one_replicated)
    assert best.prediction.step_s == 96.0
    assert len(evaluated) == len(set(evaluated))  # nothing is costed twice


def test_the_descent_starts_from_the_cheapest_and_keeps_two_devices() -> None:
    def candidate(choice: SplitConfiguration) -> Candidate:
        return costing(len(choice.devices) + 2 * (choice.form == "gather"), choice.devices)

    starts = [SplitConfiguration("gather", (0, 1)), SplitConfiguration("pairs", (0, 1, 2))]
    assert descend(starts, candidate, without_each).stage.devices == (1, 2)  # one device alone is strategy "single"


def test_a_choice_that_is_not_allowed_is_not_gone_to() -> None:
    best = descend(
        [SplitConfiguration("pairs", (0, 1))],
        lambda choice: costing(10 - len(choice.replicated), choice.devices),
        with_one_replicated,
        lambda choice: len(choice.replicated) < 3,
    )
    assert best.prediction.step_s == 8.0


@pytest.mark.parametrize("updates", [False, True])
def test_samples_are_dealt_by_speed_and_processors_of_one_device_take_turns(updates: bool) -> None:
    graph = pair_net()
    everything = frozenset(range(len(graph.layers)))
    apart = Sizer(Costs(profile_of(graph, [2e6, 1e6], batch_size=12)))
    together = Sizer(Costs(profile_of(graph, [1e6, 1e6], batch_size=12, same_device=True)))
    assert apart.samples(everything, (0, 1)) == (8, 4) and apart.samples(everything, (1, 0)) == (4, 8)
    assert together.samples(everything, (0, 1), updates) == (6, 6)


def test_a_sweep_of_few_tries_looks_at_neighbours_at_even_distances() -> None:
    seen: list[frozenset[int]] = []

    def candidate(choice: SplitConfiguration) -> Candidate:
        seen.append(choice.replicated)
        return costing(100.0, choice.devices)

    descend([SplitConfiguration("pairs", (0, 1))], candidate, with_one_replicated, tries=2)
    assert seen == [frozenset(), frozenset({0}), frozenset({2})]


def test_deep_networks_have_fewer_tries_but_eight_at_least() -> None:
    graph = pair_net()
    assert tries(graph) == 12_000 // len(graph.layers)
    deep = dataclasses.replace(graph, layers=graph.layers[:1] * 3000, outputs=(0,))
    assert tries(deep) == 8


def test_a_strategy_looks_once_and_is_asked_again() -> None:
    calls: list[str] = []

    @remembered
    def strategy(costs: Costs, form: str = "pairs") -> Candidate:
        calls.append(form)
        return costing(1.0, (0, 1))

    costs = Costs(profile_of(pair_net(), [1e6, 1e6]))
    assert strategy(costs) is strategy(costs) and strategy(costs, "gather") is strategy(costs, "gather")
    assert calls == ["pairs", "gather"]


def test_a_finished_candidate_has_its_bytes() -> None:
    costs = Costs(profile_of(pair_net(), [1e6, 1e6]))
    quick = predict(costs, filter_stage(costs.graph, [1.0, 1.0], "pairs"), memory=False)
    assert {part.memory_bytes for part in quick.parts} == {0}
    full = with_full_prediction(costs, Candidate(filter_stage(costs.graph, [1.0, 1.0], "pairs"), quick)).prediction
    assert full.step_s == quick.step_s and min(part.memory_bytes for part in full.parts) > 0
