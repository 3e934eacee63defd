"""How much stages work beside each other, and what that changes of a predicted step."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hetero_mtf.planning.cost.step_cost import Spent, StageCost
from hetero_mtf.planning.layout.stage_from_layouts import unsplit_stage
from hetero_mtf.planning.pipeline.overlap import blended, overlaps
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts, Pipeline, predict_pipeline
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.schedule.execution import Execution
from hetero_mtf.planning.schedule.simulator import Entry
from tests.planning.networks import profile_of, residual_net

HERE, THERE = frozenset(["here"]), frozenset(["there"])


def _task(stage: int, start_s: float, end_s: float) -> Entry:
    return Entry(stage, 0, "forward", start_s, end_s)


def test_stages_that_take_turns_never_overlap_and_those_that_keep_step_always_do() -> None:
    processors_per_device = [_task(0, 0, 1), _task(1, 1, 3), _task(0, 3, 4)]
    assert overlaps(processors_per_device, [HERE, HERE]).tolist() == [0.0, 0.0]
    step = [_task(0, 0, 1), _task(1, 0, 1), _task(0, 1, 2), _task(1, 1, 2)]
    assert overlaps(step, [HERE, HERE]).tolist() == [1.0, 1.0]


def test_work_on_another_host_disturbs_nobody() -> None:
    tasks = [_task(0, 0, 2), _task(1, 0, 1), _task(2, 1, 2)]
    assert overlaps(tasks, [HERE, THERE, HERE | THERE]).tolist() == [0.5, 0.0, 1.0]


def test_a_stage_that_takes_no_time_counts_as_beside_others() -> None:
    assert overlaps([_task(0, 0, 1), _task(1, 1, 1)], [HERE, HERE]).tolist() == [0.0, 1.0]


def test_a_blend_lies_between_both_in_every_part() -> None:
    beside = StageCost(*(Spent(4.0, (4.0, 2.0), (1.0, 0.0)) for _ in range(3)))
    alone = StageCost(*(Spent(2.0, (2.0, 1.0), (1.0, 0.0)) for _ in range(3)))
    assert blended(beside, alone, 1.0) == beside and blended(beside, alone, 0.0) == alone
    assert blended(beside, alone, 0.5).backward == Spent(3.0, (3.0, 1.5), (1.0, 0.0))


def _disturbed() -> Profile:
    """A profile of two devices of one host, each twice as fast while the other rests."""
    profile = profile_of(residual_net(8), [1e6, 1e6], batch_size=8)
    devices = tuple(dataclasses.replace(device, host="here") for device in profile.cluster.devices)
    whole = [c for c in profile.curves if c.dimension == "output" and c.step_pass in ("forward", "backward")]
    alone = [dataclasses.replace(c, dimension="alone", units=c.units[-1:], seconds=(c.seconds[-1] / 2,), spread=(0.0,)) for c in whole]
    cluster = dataclasses.replace(profile.cluster, devices=devices)
    return dataclasses.replace(profile, cluster=cluster, curves=(*profile.curves, *alone))


@pytest.mark.parametrize("microbatches", [1, 4])
def test_a_step_is_faster_by_what_its_stages_work_alone(microbatches: int) -> None:
    disturbed = MicrobatchCosts(_disturbed())
    undisturbed = MicrobatchCosts(dataclasses.replace(_disturbed(), curves=tuple(c for c in _disturbed().curves if c.dimension != "alone")))
    half = len(disturbed.profile.graph.layers) // 2
    runs = (range(half), range(half, len(disturbed.profile.graph.layers)))
    pipeline = Pipeline(
        tuple(unsplit_stage(disturbed.full_batch.graph, run, device) for device, run in enumerate(runs)), Execution("1f1b", microbatches)
    )
    (found, line), (before, _) = predict_pipeline(disturbed, pipeline), predict_pipeline(undisturbed, pipeline)
    passes_s, before_s = (p.forward_s + p.backward_s for p in (found, before))
    if microbatches == 1:
        assert passes_s == pytest.approx(before_s / 2) and line.bubble == pytest.approx(0.5)
    else:
        assert before_s / 2 < passes_s < before_s
    assert np.isfinite(found.step_s) and found.step_s == pytest.approx(line.step_s + found.launch_s)
