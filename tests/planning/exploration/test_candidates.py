"""Candidates: what plans are predicted to take by what trials told, and how far that may be wrong."""

from __future__ import annotations

import dataclasses

import pytest

from hetero_mtf.planning.choose import candidate_plans
from hetero_mtf.planning.choose import plan as make_plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.exploration.candidates import LIKE_ERROR, Candidates
from hetero_mtf.planning.exploration.likeness import likeness
from hetero_mtf.planning.exploration.records import Trial
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.corrections import Corrections, MeasuredStep
from hetero_mtf.planning.profile.profile import Profile
from tests.planning.networks import pair_net, profile_of
from tests.planning.refinement.simulated import slower

GRAPH = pair_net(48, 48, 48)
PROFILE = profile_of(GRAPH, [1e6, 1e6], 1e-6)
PLAN = make_plan(PROFILE)
CORRECTED = dataclasses.replace(
    PROFILE, corrections=Corrections(steps=tuple(MeasuredStep("layers", "", 1.0, 1.0 + error, 0.0, "2026-01-01") for error in (0.0, 0.2)))
)


def trial(profile: Profile, plan: Plan, times: float) -> Trial:
    predicted_s = Candidates(profile).prediction(plan).step_s
    return Trial(plan, predicted_s, (times * predicted_s,) * 5)


def test_a_plan_is_like_itself_in_other_parts_and_unlike_one_device() -> None:
    plan, other = (make_plan(profile, strategy="batch") for profile in (PROFILE, slower(PROFILE, 1, 2.5)))
    single = Plan.single(GRAPH, 0, PROFILE.cluster, PROFILE.batch_size)
    assert other.built_from != plan.built_from and likeness(GRAPH, plan, other) == 1 and likeness(GRAPH, plan, single) == 0
    assert likeness(GRAPH, PLAN, PLAN) == 1 and 0 <= likeness(GRAPH, PLAN, plan) < 1


@pytest.mark.parametrize("times", [0.8, 1.5])
def test_a_corrected_profile_stays_and_what_is_like_the_trial_errs_as_it_does(times: float) -> None:
    candidates = Candidates(CORRECTED, is_rough=False)
    solution = candidates.solve([trial(CORRECTED, PLAN, times)])
    assert candidates.costs.profile is CORRECTED
    for each in solution.candidates:
        predicted_s, alike = candidates.prediction(each.plan).step_s, likeness(GRAPH, each.plan, PLAN)
        if alike == 1:
            assert each.predicted_s == pytest.approx(times * predicted_s) and each.error == LIKE_ERROR
        if alike == 0:
            assert each.predicted_s == pytest.approx(max(1.0, times) * predicted_s) and each.error > LIKE_ERROR


def test_a_profile_without_corrections_is_corrected_by_trials_and_one_that_is_rough_by_traced_layers_too() -> None:
    truth = slower(PROFILE, 1, 2.0)
    run = dataclasses.replace(trial(PROFILE, PLAN, 1.0), step_s=(Candidates(truth).prediction(PLAN).step_s,) * 5)
    candidates = Candidates(PROFILE, is_rough=False)
    candidates.solve([run])
    assert candidates.costs.profile.corrections.steps and candidates.costs.profile.curves == PROFILE.curves
    assert candidates.prediction(PLAN).step_s > 1.1 * Candidates(PROFILE).prediction(PLAN).step_s


def test_the_network_keeps_plans_that_draw_alike() -> None:
    candidates = Candidates(PROFILE, alike=lambda plan: plan.strategy == "batch")
    assert {each.plan.strategy for each in candidates.solve([trial(PROFILE, PLAN, 1.0)]).candidates} == {"batch"}
    assert len({plan.strategy for plan in candidate_plans(Costs(PROFILE))}) > 1


def test_a_plan_that_has_no_room_beside_the_best_one_is_no_candidate() -> None:
    candidates = Candidates(PROFILE)
    run = trial(PROFILE, PLAN, 1.0)
    everything = candidates.solve([run]).candidates
    largest = max(part.memory_bytes for each in everything for part in candidates.prediction(each.plan).parts)
    pools = tuple(dataclasses.replace(pool, free_bytes=int(1.5 * largest)) for pool in PROFILE.memory)
    narrow = Candidates(dataclasses.replace(PROFILE, memory=pools)).solve([run]).candidates
    assert {each.plan.built_from for each in narrow} < {each.plan.built_from for each in everything}
