from __future__ import annotations

import dataclasses

import pytest

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.pipeline.plan_prediction import predict_plan, time_line
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts, Pipeline, predict_pipeline
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.schedule.execution import Execution
from tests.planning.networks import pair_net, profile_of

GRAPH = pair_net(24, 24, 24)
PROFILE = profile_of(GRAPH, [2e6, 1e6, 1e6], 1e-6, batch_size=8)


def typed(schedule: str, microbatches: int = 4) -> Plan:
    return Plan.pipeline(
        GRAPH, ["first", "second"], [[0, 1], [2]], [[2, 1], [1]], PROFILE.cluster, 8, microbatches=microbatches, schedule=schedule
    )


def test_one_stage_is_predicted_as_ever() -> None:
    costs, plan = Costs(PROFILE), Plan.filters(GRAPH, [2, 1, 1], PROFILE.cluster, 8)
    assert predict_plan(costs, plan) == predict(costs, plan.stages[0])


@pytest.mark.parametrize("schedule", ["1f1b", "fill_drain"])
def test_a_typed_pipeline_is_simulated_with_one_part_a_device_in_order(schedule: str) -> None:
    costs, plan = Costs(PROFILE), typed(schedule)
    found = predict_plan(costs, plan)
    assert found is not None and [part.device for part in found.parts] == [plan.devices[d] for d in plan.used]
    assert found == predict_pipeline(MicrobatchCosts(PROFILE, costs), Pipeline(plan.stages, Execution(schedule, 4)))[0]


def test_one_stage_in_microbatches_takes_as_long_by_any_schedule() -> None:
    costs = Costs(PROFILE)
    plans = [dataclasses.replace(Plan.single(GRAPH, 0, PROFILE.cluster, 8), microbatches=2, schedule=s) for s in ("synchronous", "1f1b")]
    assert predict_plan(costs, plans[0]) == predict_plan(costs, plans[1]) is not None


def test_what_is_computed_again_takes_time_and_a_device_alone_computes_nothing_again() -> None:
    costs = Costs(PROFILE)
    for plan, longer in ((typed("fill_drain"), True), (Plan.single(GRAPH, 0, PROFILE.cluster, 8), False)):
        once, again = predict_plan(costs, plan), predict_plan(costs, dataclasses.replace(plan, recompute=True))
        assert once is not None and again is not None
        assert again.step_s > 1.1 * once.step_s if longer else again.step_s == once.step_s
        assert sum(part.compute_s for part in again.parts) > sum(part.compute_s for part in once.parts) or not longer


def test_stages_that_work_one_after_another_are_not_predicted() -> None:
    assert predict_plan(Costs(PROFILE), typed("synchronous")) is None
    assert time_line(Costs(PROFILE), typed("synchronous")) is None


def test_a_pipeline_has_a_time_line_and_a_split_has_none() -> None:
    costs = Costs(PROFILE)
    found = time_line(costs, typed("1f1b"))
    assert found is not None and len(found[1].tasks) == 2 * 2 * 4
    assert time_line(costs, Plan.filters(GRAPH, [2, 1, 1], PROFILE.cluster, 8)) is None
