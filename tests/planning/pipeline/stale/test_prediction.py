"""The predicted step of schedule "decoupled" is that of its slowest stage, and its plan says how late gradients are."""

from __future__ import annotations

import numpy as np
import pytest

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import stage_cost
from hetero_mtf.planning.layout.blocks import blocks, crossing_bytes
from hetero_mtf.planning.memory.stage_memory import stage_bytes
from hetero_mtf.planning.memory.worker_memory import GRAPH_BYTES
from hetero_mtf.planning.pipeline.plan_prediction import pipeline_of, predict_plan
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.plan.plan_text import execution_text
from hetero_mtf.planning.schedule.stale import StaleOptions, batches_kept, delays
from tests.planning.networks import deep_net, profile_of

PROFILE = profile_of(deep_net(""), [2e6, 1e6, 1e6], 0.0)


def decoupled(stages: int) -> Plan:
    names = [layer.name for layer in PROFILE.graph.layers]
    starts = [1, len(names) // 2, len(names) - 2][:stages]
    groups = [[device] for device in range(stages)]
    return Plan.pipeline(PROFILE.graph, starts, groups, [[1]] * stages, PROFILE.cluster, PROFILE.batch_size, schedule="decoupled")


@pytest.mark.parametrize("stages", [2, 3])
def test_a_step_takes_as_long_as_the_slowest_stage(stages: int) -> None:
    costs, plan = Costs(PROFILE), decoupled(stages)
    predicted = predict_plan(costs, plan)
    assert predicted is not None and pipeline_of(plan) is None
    spent = [stage_cost(costs, stage) for stage in plan.stages]
    replays = [each.forward.seconds for each in spent[:-1]] + [0.0]
    slowest = max(each.microbatch_s + each.finish.seconds + replay for each, replay in zip(spent, replays))
    assert predicted.step_s == pytest.approx(slowest, rel=1e-3)
    assert predicted.forward_s + predicted.backward_s + predicted.update_s + predicted.launch_s == pytest.approx(predicted.step_s)
    assert all(part.compute_s + part.communication_s + part.idle_s == pytest.approx(predicted.step_s) for part in predicted.parts)


def test_one_stage_is_predicted_as_one_device() -> None:
    plan = decoupled(1)
    single = Plan.single(PROFILE.graph, 0, PROFILE.cluster, PROFILE.batch_size)
    costs = Costs(PROFILE)
    assert predict_plan(costs, plan) == predict_plan(costs, single)


def test_the_plan_says_how_late_gradients_are() -> None:
    assert delays("decoupled", 1, StaleOptions()) == (0,) and delays("decoupled", 4, StaleOptions()) == (6, 4, 2, 0)
    assert [batches_kept(stage, 3) for stage in range(3)] == [5, 3, 1]
    assert "not synchronous: gradients late by 4-2-0 updates by stage, forward passes replayed" in execution_text(decoupled(3))
    assert execution_text(decoupled(1)) == "decoupled"


def test_a_stage_holds_the_inputs_of_all_batches_that_it_keeps_and_what_has_arrived_for_the_next_tick() -> None:
    plan = decoupled(3)
    predicted = predict_plan(Costs(PROFILE), plan)
    assert predicted is not None
    crossing = PROFILE.batch_size * np.array([0.0, *crossing_bytes(PROFILE.graph)])
    firsts = [next(at for at, block in enumerate(blocks(PROFILE.graph)) if block[0] == stage.layers[0]) for stage in plan.stages[1:]]
    exchanged = [crossing[firsts[0]], crossing[firsts].sum(), crossing[firsts[1]]]
    for number, stage in enumerate(plan.stages):
        held = stage_bytes(PROFILE, stage, recompute=True)
        further = predicted.parts[number].memory_bytes - held.peak(1)[0] - 2 * GRAPH_BYTES * len(stage.layouts)
        assert further == pytest.approx((batches_kept(number, 3) - 1) * held.kept[0] + exchanged[number], abs=2)
    assert stage_bytes(PROFILE, plan.stages[1], recompute=True).kept[0] > 0
