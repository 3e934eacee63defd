"""Pipelines without a flush: the search is exact on sums over blocks, keeps to memory, and auto takes one only where it is allowed."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.blocks import blocks
from hetero_mtf.planning.pipeline.plan_prediction import predict_plan, time_line
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts
from hetero_mtf.planning.pipeline.search import PipelineOptions
from hetero_mtf.planning.pipeline.stale.search import best_stale_pipeline
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.schedule.execution import Execution
from hetero_mtf.planning.schedule.stale import StaleOptions
from tests.planning.networks import deep_net, profile_of

PROFILE = profile_of(deep_net(""), [2e6, 1e6, 0.7e6], 0.0)


def every_pipeline(profile: Profile, stages: int, schedule: str, stale: StaleOptions, microbatches: int) -> list[Plan]:
    """Return all pipelines of single devices."""
    chain = blocks(profile.graph)
    plans = []
    for inner in itertools.combinations(range(1, len(chain)), stages - 1):
        starts = [1, *(chain[at][0] for at in inner)]
        for devices in itertools.permutations(range(len(profile.cluster.devices)), stages):
            groups = [[device] for device in devices]
            head = profile.graph, starts, groups, [[1]] * stages, profile.cluster, profile.batch_size, microbatches
            plans.append(Plan.pipeline(*head, schedule=schedule, stale=stale))
    return plans


@pytest.mark.fast("2-replay-decoupled-1")
@pytest.mark.parametrize(("schedule", "microbatches"), [("decoupled", 1), ("1f1b_2bw", 4)])
@pytest.mark.parametrize("backward", ["replay", "stored"])
@pytest.mark.parametrize("stages", [2, 3])
def test_no_pipeline_of_single_devices_is_faster(stages: int, backward: str, schedule: str, microbatches: int) -> None:
    stale = StaleOptions(backward)
    costs = MicrobatchCosts(PROFILE)
    best = best_stale_pipeline(costs, Execution(schedule, microbatches, stale=stale), stages, groups=False)
    predicted = [predict_plan(costs.full_batch, each) for each in every_pipeline(PROFILE, stages, schedule, stale, microbatches)]
    least = min(each.step_s for each in predicted if each is not None)
    assert best.prediction.step_s == pytest.approx(least, rel=1e-6)


def test_groups_are_no_slower_than_single_devices() -> None:
    costs, execution = MicrobatchCosts(PROFILE), Execution("decoupled")
    alone = best_stale_pipeline(costs, execution, groups=False)
    together = best_stale_pipeline(costs, execution)
    assert together.prediction.step_s <= alone.prediction.step_s * 1.001


def test_memory_is_kept_to() -> None:
    costs = MicrobatchCosts(PROFILE)
    execution = Execution("decoupled", stale=StaleOptions("stored"))
    free = best_stale_pipeline(costs, execution, 2, groups=False)
    most = max(part.memory_bytes for part in free.prediction.parts)
    pools = tuple(dataclasses.replace(pool, free_bytes=int(most * 0.97)) for pool in PROFILE.memory)
    tight = best_stale_pipeline(MicrobatchCosts(dataclasses.replace(PROFILE, memory=pools)), execution, 2, groups=False)
    assert max(part.memory_bytes for part in tight.prediction.parts) <= int(most * 0.97)
    assert tight.prediction.step_s >= free.prediction.step_s
    none = tuple(dataclasses.replace(pool, free_bytes=1) for pool in PROFILE.memory)
    with pytest.raises(PlanError, match="no pipeline of schedule decoupled fits into memory"):
        best_stale_pipeline(MicrobatchCosts(dataclasses.replace(PROFILE, memory=none)), execution, 2, groups=False)


def test_auto_takes_a_late_pipeline_only_where_it_is_allowed() -> None:
    allowed, usual = plan(PROFILE, allow_stale=True), plan(PROFILE)
    assert usual.schedule not in ("decoupled", "1f1b_2bw")
    assert allowed.predicted is not None and usual.predicted is not None
    assert allowed.predicted.step_s <= usual.predicted.step_s
    names = {each.strategy for each in allowed.alternatives} | {allowed.schedule}
    assert {"decoupled", "1f1b_2bw"} <= names


def test_a_schedule_that_is_asked_for_is_planned_with_the_faster_backward_pass() -> None:
    chosen = plan(PROFILE, strategy="pipeline", pipeline=PipelineOptions(schedule="decoupled"))
    others = [
        plan(PROFILE, strategy="pipeline", pipeline=PipelineOptions(schedule="decoupled", stale=StaleOptions(backward)))
        for backward in ("replay", "stored")
    ]
    assert chosen.predicted is not None
    assert chosen.predicted.step_s == pytest.approx(min(each.predicted.step_s for each in others if each.predicted is not None))
    with pytest.raises(PlanError, match="goes with no option recompute"):
        plan(PROFILE, strategy="pipeline", pipeline=PipelineOptions(schedule="decoupled", recompute=True))


def test_a_tick_is_drawn_with_all_stages_at_work() -> None:
    chosen = plan(PROFILE, strategy="pipeline", pipeline=PipelineOptions(schedule="1f1b_2bw", microbatches=4, stages=2, groups=False))
    drawn = time_line(Costs(PROFILE), chosen)
    assert drawn is not None
    prediction, line = drawn
    assert [(entry.stage, entry.microbatch, entry.step_pass) for entry in line.tasks if entry.start_s == 0.0] == [
        (0, 2, "forward"),
        (1, 1, "forward"),
    ]
    assert prediction.step_s == pytest.approx(4 * (line.step_s) + prediction.launch_s)
    assert max(line.bubbles) < 1 and min(line.bubbles) >= -1e-9
    assert math.isfinite(line.bubble) and np.all(np.array(line.in_flight) == (3, 1))
