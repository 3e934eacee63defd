from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.pipeline.plan_prediction import time_line
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.schedule.simulator import Simulation
from hetero_mtf.report.measured import MeasuredTask
from hetero_mtf.report.time_line import pipeline_line as pipeline
from hetero_mtf.report.time_line.pipeline_line import measured_line, placed, predicted_line
from tests.planning.networks import cluster_of, pair_net, profile_of

GRAPH = pair_net(24, 24, 24)
PROFILE = profile_of(GRAPH, [2e6, 1e6, 1e6], 1e-3, batch_size=8)
PLAN = Plan.pipeline(GRAPH, ["first", "second"], [[0, 2], [1]], [[2, 1], [1]], PROFILE.cluster, 8, microbatches=4)


def simulated(plan: Plan = PLAN) -> Simulation:
    found = time_line(Costs(PROFILE), plan)
    assert found is not None
    return found[1]


def test_every_device_of_a_stage_has_the_bars_of_the_simulated_step() -> None:
    step = simulated()
    line = predicted_line(PLAN, step)
    assert line is not None and line.rows == ("worker:0, stage 0", "worker:2, stage 0", "worker:1, stage 1")
    kinds = Counter((span.row, span.kind) for span in line.spans)
    assert {kinds[row, kind] for row in range(3) for kind in ("forward", "backward", "transfer")} == {4}
    assert kinds[0, "update"] == kinds[2, "update"] == 1 and line.total_s == step.step_s == line.end_s
    first = next(span for span in line.spans if span.row == 2 and span.kind == "forward")
    entry = next(entry for entry in step.tasks if entry.stage == 1)
    assert (first.start_s, first.end_s, first.label) == (entry.start_s, entry.end_s, "0")
    assert first.told.startswith("stage 1, forward pass of microbatch 0: ") and " from " in first.told


def test_a_transfer_stands_with_its_sender_and_names_its_reader() -> None:
    line = predicted_line(PLAN, simulated())
    assert line is not None
    sent = {(span.row, span.told.partition(":")[0]) for span in line.spans if span.kind == "transfer" and span.label == "3"}
    assert sent == {
        (0, "output of microbatch 3 to stage 1"),
        (1, "output of microbatch 3 to stage 1"),
        (2, "gradient of microbatch 3 to stage 0"),
    }


def test_a_device_with_two_stages_has_one_row() -> None:
    taken = Plan.pipeline(
        GRAPH, ["first", "second", "head"], [[0], [1], [0]], [[1]] * 3, PROFILE.cluster, 8, microbatches=2, schedule="interleaved"
    )
    line = predicted_line(taken, simulated(taken))
    assert line is not None and line.rows == ("worker:0, stages 0 and 2", "worker:1, stage 1")
    assert sum(span.row == 0 and span.kind == "forward" for span in line.spans) == 4


def test_many_devices_have_a_row_a_stage() -> None:
    profile = profile_of(GRAPH, [1e6] * 18, batch_size=36)
    many = Plan.pipeline(GRAPH, ["first", "second"], [range(17), [17]], [[1] * 17, [1]], cluster_of(18), 36, microbatches=2, split="batch")
    found = time_line(Costs(profile), many)
    assert found is not None
    line = predicted_line(many, found[1])
    assert line is not None and line.rows == ("stage 0, worker:0 and 16 more", "stage 1, worker:17") and placed(many, 1) == "worker:17"
    task = MeasuredTask("worker:3", 0, 0, "forward", 0.5, 1.0, 0.5)
    measured = measured_line(many, [task])
    assert measured is not None and measured.spans[0].row == 0


def test_a_measured_line_begins_with_its_first_task_and_leaves_out_strangers() -> None:
    tasks = [
        MeasuredTask("worker:2", 0, 0, "forward", 0.5, 1.0, 0.25),
        MeasuredTask("worker:1", 1, 0, "forward", 1.0, 2.5, 1.5),
        MeasuredTask("worker:1", 0, 0, "forward", 0.0, 0.1, 0.1),
    ]
    line = measured_line(PLAN, tasks[:2])
    assert line is not None and line.total_s == 2.0 and [span.row for span in line.spans] == [1, 2]
    assert (line.spans[0].start_s, line.spans[1].end_s) == (0.0, 2.0)
    told = "stage 0, forward pass of microbatch 0 on worker:2, 250 ms of it compute: 500 ms from 0 s"
    assert line.spans[0].told == told
    strange = measured_line(PLAN, tasks, total_s=5.0)
    assert strange is not None and len(strange.spans) == 2 and strange.total_s == 5.0


def test_processors_on_one_device_stand_in_the_row_of_the_first() -> None:
    cluster = cluster_of(3, same_device=True)
    plan = Plan.pipeline(GRAPH, ["first", "second"], [[0, 2], [1]], [[2, 1], [1]], cluster, 8, microbatches=4)
    line = measured_line(plan, [MeasuredTask("cpu:0", stage, 0, "forward", stage, stage + 1.0, 1.0) for stage in range(2)])
    assert line is not None and [span.row for span in line.spans] == [0, 2]


@pytest.mark.parametrize("at", [0, 1])
def test_devices_of_a_stage_are_named(at: int) -> None:
    assert placed(PLAN, at) == ("worker:0, worker:2", "worker:1")[at]


def test_a_transfer_that_takes_no_time_has_no_bar() -> None:
    step = simulated()
    none = dataclasses.replace(step, transfers=tuple(entry._replace(end_s=entry.start_s) for entry in step.transfers))
    line = predicted_line(PLAN, none)
    assert line is not None and {span.kind for span in line.spans} == {"forward", "backward", "update"}


def test_more_stages_than_can_be_drawn_have_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "DEVICES_UP_TO", 2)
    monkeypatch.setattr(pipeline, "STAGES_UP_TO", 1)
    assert predicted_line(PLAN, simulated()) is None
    assert measured_line(PLAN, [MeasuredTask("worker:1", 1, 0, "forward", 1.0, 2.5, 1.5)]) is None
