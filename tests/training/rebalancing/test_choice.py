"""Whether to move: the gain over the steps left against the cost."""

from __future__ import annotations

import dataclasses
import math

import pytest

from hetero_mtf.planning.choose import candidate_plans
from hetero_mtf.planning.choose import plan as make_plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.corrections import Corrections, MeasuredStep
from hetero_mtf.planning.refinement.corrector import prediction
from hetero_mtf.training.rebalancing import choice
from hetero_mtf.training.rebalancing.choice import MARGIN, Present, change_text, decide
from hetero_mtf.training.rebalancing.records import DeviceChange
from tests.planning.refinement.simulated import slower
from tests.training.rebalancing.simulated_training import PROFILE

PLAN = make_plan(PROFILE)
COSTS = Costs(slower(PROFILE, 1, 2.5))
NOW_S = prediction(COSTS, PLAN).step_s
PRESENT = Present(140, PLAN, NOW_S, (DeviceChange("worker:1", 2.5),), 1000, 10 * NOW_S)


def test_a_plan_that_gains_more_than_the_move_costs_is_moved_to() -> None:
    decision = decide(COSTS, PRESENT)
    assert decision.moves and decision.after is not None and decision.gain_s > MARGIN * decision.cost_s
    assert decision.expected_s < NOW_S and decision.reason == "worker:1 became 2.50 times as slow"


def test_the_gain_is_that_of_the_steps_left() -> None:
    saved_s = NOW_S - decide(COSTS, PRESENT).expected_s
    enough = int(MARGIN * PRESENT.cost_s / saved_s) + 1
    assert decide(COSTS, dataclasses.replace(PRESENT, steps_left=enough)).moves
    assert not decide(COSTS, dataclasses.replace(PRESENT, steps_left=enough - 1)).moves


def test_nothing_is_solved_where_the_steps_left_take_less_than_a_move() -> None:
    decision = decide(COSTS, dataclasses.replace(PRESENT, steps_left=10), plans=lambda costs: pytest.fail("solved"))
    assert not decision.moves and "10 steps are left" in decision.reason


def test_a_plan_that_is_hardly_faster_is_not_moved_to() -> None:
    decision = decide(Costs(PROFILE), dataclasses.replace(PRESENT, step_s=prediction(Costs(PROFILE), PLAN).step_s))
    assert not decision.moves


def test_a_gain_within_the_spread_of_steps_does_not_count() -> None:
    part = 1 - decide(COSTS, PRESENT).expected_s / NOW_S
    assert decide(COSTS, dataclasses.replace(PRESENT, spread=0.9 * part)).moves
    assert not decide(COSTS, dataclasses.replace(PRESENT, spread=1.1 * part)).moves


@pytest.mark.parametrize("draws", [False, True])
def test_a_network_that_draws_at_random_keeps_its_microbatches(draws: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    alike = [plan for plan in candidate_plans(COSTS) if plan.microbatches == PLAN.microbatches]
    best = decide(COSTS, PRESENT, plans=lambda costs: alike).after
    assert best is not None
    cut = dataclasses.replace(best, microbatches=best.microbatches + 1)
    monkeypatch.setattr(choice, "draws_at_random", lambda layer: draws)
    assert decide(COSTS, PRESENT, plans=lambda costs: [cut]).moves is not draws
    assert decide(COSTS, PRESENT, plans=lambda costs: [best]).moves


def test_plans_that_are_refused_are_left_out() -> None:
    first = decide(COSTS, PRESENT).after
    assert first is not None
    second = decide(COSTS, dataclasses.replace(PRESENT, refused=frozenset({first.built_from}))).after
    assert second is None or second.built_from != first.built_from
    everything = frozenset(plan.built_from for plan in candidate_plans(COSTS))
    assert decide(COSTS, dataclasses.replace(PRESENT, refused=everything)).reason == "there is no other plan"


def test_steps_that_are_longer_than_predicted_are_expected_to_be_under_all_plans() -> None:
    usual, longer = decide(COSTS, PRESENT), decide(COSTS, dataclasses.replace(PRESENT, step_s=1.5 * NOW_S))
    assert longer.expected_s == pytest.approx(1.5 * usual.expected_s)


def test_a_plan_that_was_not_run_is_expected_to_err_as_much_as_the_worst_that_was() -> None:
    single = Plan.single(PROFILE.graph, 0, PROFILE.cluster, PROFILE.batch_size)

    def expected_s(*errors: float) -> float:
        steps = tuple(MeasuredStep("layers", "", 1.0, 1.0 + error, 0.0, "2026-01-01") for error in (0.0, *errors))
        profile = dataclasses.replace(PROFILE, corrections=Corrections(steps=steps))
        costs = Costs(profile)
        planned = dataclasses.replace(single, predicted=prediction(costs, single))
        present = dataclasses.replace(PRESENT, step_s=prediction(costs, PLAN).step_s)
        return decide(costs, present, plans=lambda _: [planned]).expected_s

    assert expected_s(0.01, 0.2, 0.01) == pytest.approx(expected_s(0.2)) == pytest.approx((1 + math.log(1.2)) / 1.03 * expected_s(0.0))


def test_changes_are_told_in_words() -> None:
    assert change_text([DeviceChange("gpu:0", 0.25)]) == "gpu:0 became 4.00 times as fast"
