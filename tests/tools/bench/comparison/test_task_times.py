"""What is read off the tasks of a traced pipeline."""

from __future__ import annotations

from typing import Any

import pytest

from tools.bench.comparison.task_times import bubble, measured_j, stage_passes_s, work_s


def _task(device: str, name: str, start_s: float, end_s: float) -> dict[str, Any]:
    return {"device": device, "task": name, "start_s": start_s, "end_s": end_s, "compute_s": end_s - start_s}


def _step(slow: float = 1.0) -> list[dict[str, Any]]:
    """One step of two stages and two microbatches; the second stage takes `slow` a pass, the first 1."""
    first = [_task("d0", f"stage0_forward{m}", m, m + 1) for m in range(2)]
    second = [_task("d1", f"stage1_{name}{m}", 2, 2 + slow) for m in range(2) for name in ("forward", "backward")]
    back = [_task("d0", f"stage0_backward{m}", 2 + m, 3 + m) for m in range(2)]
    return [*first, *second, *back]


def test_the_passes_of_a_stage_are_means_over_its_microbatches() -> None:
    assert stage_passes_s(_step(3.0)) == [{"forward": 1.0, "backward": 1.0}, {"forward": 3.0, "backward": 3.0}]


def test_the_passes_of_a_stage_on_two_devices_are_those_of_the_busier_one() -> None:
    tasks = [_task("d0", "stage0_forward0", 0, 1), _task("d1", "stage0_forward0", 0, 2), _task("d0", "stage0_backward0", 2, 5)]
    assert stage_passes_s(tasks) == [{"forward": 2.0, "backward": 3.0}]


def test_the_bubble_is_what_devices_are_idle_of_the_passes_which_begin_with_the_first_task() -> None:
    assert bubble(_step()) == pytest.approx(0.0)
    later = [{**task, "start_s": task["start_s"] + 7, "end_s": task["end_s"] + 7} for task in _step()]
    assert bubble(later) == pytest.approx(0.0)
    assert bubble([_task("d0", "stage0_forward0", 0, 1), _task("d1", "stage1_forward0", 1, 2)]) == pytest.approx(0.5)


def test_a_task_that_begins_before_its_input_is_there_is_at_work_from_then_on() -> None:
    first, early = _task("d0", "stage0_forward0", 0, 2), _task("d1", "stage1_forward0", 1, 5)
    assert work_s([first, early]) == [2.0, 3.0]
    assert work_s([first, _task("d1", "stage1_forward1", 1, 5), _task("d0", "stage0_backward0", 4, 6)]) == [2.0, 4.0, 2.0]


def test_j_takes_the_median_seconds_of_a_stage_over_steps() -> None:
    assert measured_j([_step()], [0.0], 2) == pytest.approx(2 + 2 + 2)
    assert measured_j([_step(1.0), _step(9.0), _step(2.0)], [0.5], 2) == pytest.approx(2 + 4 + 0.5 + 4)


def test_an_operation_of_no_task_is_refused() -> None:
    with pytest.raises(ValueError, match="update0 is no task"):
        stage_passes_s([_task("d0", "update0", 0, 1)])
