from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hetero_mtf.errors import DataError, HeteroError, PlanError
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.report.measured import Measured, MeasuredPart, MeasuredTask, measured_task
from hetero_mtf.report.step_time import StepTime, StepTimes
from tests.planning.networks import cluster_of, pair_net
from tests.planning.spoiling import spoilt

PLAN = Plan.filters(pair_net(), [2, 1], cluster_of(2), 8)
PART = MeasuredPart("worker:0", 0.1, 0.02, 0.03, overlapped_s=0.05)
TASK = MeasuredTask("worker:1", 0, 0, "backward", 0.1, 0.3, 0.15)


def measured(**changes: Any) -> Measured:
    made = Measured(PLAN.digest, "filters", 8, PLAN.devices, 20, 0.15, 0.1, (0.2, 0.4), 0.3, (PART,), (TASK,), {"equal cut": 0.5})
    return dataclasses.replace(made, **changes)


def test_times_survive_their_file(tmp_path: pathlib.Path) -> None:
    measured().save(tmp_path / "measured.json")
    assert Measured.load(tmp_path / "measured.json") == measured()


def test_times_of_another_run_are_refused() -> None:
    measured().check(PLAN)
    message = "x.json: measured was network .* by strategy batch at batch size 8 on worker:0, worker:1, the plan is network .* by strategy"
    with pytest.raises(PlanError, match=message):
        measured(strategy="batch").check(PLAN, "x.json")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps: is 0, must be at least 1"),
        ({"batch_size": -1}, "batch_size: is -1, must be at least 1"),
        ({"devices": ()}, "devices: are none, must name at least one"),
        ({"step_s": 0.0}, "step_s: is 0, must be finite and above zero"),
        ({"equal_s": -1.0}, "equal_s: is -1, must be finite and above zero"),
        ({"simpler_s": {"equal cut": 0.0}}, "simpler_s.equal cut: is 0, must be finite and above zero"),
        ({"alone_s": (1.0,)}, "alone_s: are 1, there are 2 devices"),
        ({"spread": -0.5}, "spread: is -0.5, must be zero or more"),
        ({"parts": (dataclasses.replace(PART, compute_s=-1.0),)}, r"parts\[0\].compute_s: is -1, must be zero or more"),
        ({"tasks": (dataclasses.replace(TASK, stage=-1),)}, r"tasks\[0\].stage: is -1, must be at least 0"),
        ({"tasks": (dataclasses.replace(TASK, step_pass="up"),)}, r"tasks\[0\].step_pass: is 'up', must be forward or backward"),
        ({"tasks": (dataclasses.replace(TASK, compute_s=-1.0),)}, r"tasks\[0\].compute_s: is -1, must be zero or more"),
        ({"tasks": (TASK, dataclasses.replace(TASK, end_s=0.0))}, r"tasks\[1\].end_s: is 0, must not be before 0.1"),
    ],
)
def test_times_that_cannot_be_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=f"the measured times have .*{message}.*; train again"):
        measured(**changes)


def test_every_fault_of_a_file_is_named_at_once(tmp_path: pathlib.Path) -> None:
    measured().save(tmp_path / "measured.json")
    document = json.loads((tmp_path / "measured.json").read_text())
    document.update(steps=0, step_s="fast", speed=3)
    (tmp_path / "measured.json").write_text(json.dumps(document))
    with pytest.raises(DataError, match="measured.json has 3 faults: step_s: is 'fast', .*speed: is not known; steps: is 0.*; train again"):
        Measured.load(tmp_path / "measured.json")


def test_another_file_is_refused_with_the_command_that_makes_it(tmp_path: pathlib.Path) -> None:
    PLAN.save(tmp_path / "plan.json")
    with pytest.raises(
        HeteroError, match="plan.json is a plan of hetero-mtf plan and not a measured file; make it again with hetero-mtf train"
    ):
        Measured.load(tmp_path / "plan.json")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_whatever_is_spoilt_in_a_file_is_one_sentence(tmp_path: pathlib.Path, data: st.DataObject) -> None:
    measured().save(tmp_path / "measured.json")
    document = json.loads((tmp_path / "measured.json").read_text())
    (tmp_path / "measured.json").write_text(json.dumps(spoilt(document, data)))
    try:
        assert isinstance(Measured.load(tmp_path / "measured.json"), Measured)
    except HeteroError as fault:
        assert "train" in str(fault).rpartition("; ")[2]


def test_a_file_without_tasks_is_read_as_ever(tmp_path: pathlib.Path) -> None:
    measured(tasks=()).save(tmp_path / "measured.json")
    document = json.loads((tmp_path / "measured.json").read_text())
    del document["tasks"]
    (tmp_path / "measured.json").write_text(json.dumps(document))
    assert Measured.load(tmp_path / "measured.json") == measured(tasks=())


def test_without_a_flush_tasks_are_of_all_batches_in_flight() -> None:
    typed = Plan.pipeline(pair_net(), ["first", "second"], [[0], [1]], [[1], [1]], cluster_of(2), 8, schedule="decoupled")
    tasks = tuple(dataclasses.replace(TASK, stage=stage, microbatch=batch) for stage, batch in ((0, 2), (0, 0), (1, 1)))
    measured(strategy="pipeline", tasks=tasks).check(typed)
    with pytest.raises(PlanError, match="2 stages with 2 microbatches, the plan has 2 stages with 3"):
        measured(strategy="pipeline", tasks=tasks[1:]).check(typed)


def test_the_tasks_of_another_pipeline_are_refused() -> None:
    typed = Plan.pipeline(pair_net(), ["first", "second"], [[0], [1]], [[1], [1]], cluster_of(2), 8, microbatches=2)
    tasks = tuple(dataclasses.replace(TASK, stage=stage, microbatch=m) for stage in range(2) for m in range(2))
    measured(strategy="pipeline", tasks=tasks).check(typed)
    message = "x.json: traced were 2 stages with 1 microbatches, the plan has 2 stages with 2 microbatches; give the plan of that run"
    with pytest.raises(PlanError, match=message):
        measured(strategy="pipeline", tasks=tasks[::2]).check(typed, "x.json")


def test_a_task_is_known_by_its_name_in_the_trace() -> None:
    assert measured_task("worker:1", "stage0_backward0", 0.1, 0.3, 0.15) == TASK
    with pytest.raises(DataError, match="a trace names the task 'update', which is not like stage0_forward3; report it with the plan"):
        measured_task("worker:1", "update", 0.1, 0.3, 0.15)


def test_a_comparison_adds_the_devices_alone_and_the_equal_split() -> None:
    bare = measured(alone_s=(), equal_s=None, simpler_s={})
    times = StepTimes((StepTime("a", None, 0.5), StepTime("b", None, 0.6)), StepTime("planned", None, 0.2), StepTime("equal", None, 0.7))
    both = bare.beside(dataclasses.replace(times, simpler=(StepTime("cut", None, 0.9), StepTime("whole", 0.8))))
    assert (both.alone_s, both.equal_s, both.simpler_s, both.step_s) == ((0.5, 0.6), 0.7, {"cut": 0.9}, 0.2)
    assert bare.beside(None) == bare
    partly = StepTimes((StepTime("a", None, 0.5), StepTime("b")), StepTime("planned"))
    assert bare.beside(partly) == bare


def test_the_traced_step_takes_the_time_base_of_the_measured_one() -> None:
    bare = measured(step_s=0.3)
    assert bare.traced_s == pytest.approx(0.15)
    scaled = bare.on_step_base()
    assert scaled.traced_s == pytest.approx(scaled.step_s) == pytest.approx(0.3)
    assert dataclasses.astuple(scaled.parts[0])[1:4] == pytest.approx((0.2, 0.04, 0.06))
    assert (scaled.tasks[0].start_s, scaled.tasks[0].end_s, scaled.tasks[0].compute_s) == pytest.approx((0.2, 0.6, 0.3))
    assert measured(parts=()).on_step_base() == measured(parts=())
