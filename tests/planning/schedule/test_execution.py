"""The execution of a list of stages, its faults, and the plan's copy of its fields."""

import dataclasses
from typing import Any

import pytest

from hetero_mtf.planning.names import CLOCKED_SCHEDULES, SCHEDULES, SEARCHED_SCHEDULES, STALE_SCHEDULES
from hetero_mtf.planning.plan.plan_record import PlanRecord
from hetero_mtf.planning.schedule.execution import Execution
from hetero_mtf.planning.schedule.stale import StaleOptions


@pytest.mark.parametrize("schedule", [name for name in SCHEDULES if name not in STALE_SCHEDULES])
def test_every_schedule_takes_from_one_microbatch_to_one_a_sample(schedule: str) -> None:
    assert all(Execution(schedule, count, True, replicas=(5, 3)).faults(8, 2) == [] for count in range(1, 9))
    assert [fault.path for fault in Execution(schedule, 9).faults(8, 2)] == ["microbatches"]


@pytest.mark.parametrize(
    ("values", "batch_size", "paths"),
    [
        ({"schedule": "other"}, 8, ["schedule"]),
        ({"microbatches": 0}, 8, ["microbatches"]),
        ({"microbatches": True}, 8, ["microbatches"]),
        ({"replicas": (4, 3)}, 8, ["replicas"]),
        ({"replicas": (8, 0)}, 8, ["replicas"]),
        ({"depths": (2, 1)}, 8, ["depths"]),
        ({"schedule": "1f1b", "depths": (2, 1)}, 8, []),
        ({"schedule": "1f1b", "depths": (1, 2)}, 8, ["depths"]),
        ({"schedule": "1f1b", "depths": (2, 1, 1)}, 8, ["depths"]),
        ({"schedule": "decoupled", "replicas": (5, 3)}, 8, []),
        ({"schedule": "decoupled", "microbatches": 2, "recompute": True}, 8, ["recompute", "microbatches"]),
        ({"schedule": "1f1b_2bw", "microbatches": 4}, 8, []),
        ({"schedule": "1f1b_2bw", "microbatches": 1}, 8, ["microbatches"]),
        ({"schedule": "1f1b_2bw", "microbatches": 3}, 8, ["microbatches"]),
        ({"stale": StaleOptions()}, 8, ["stale"]),
        (
            {"schedule": "decoupled", "stale": StaleOptions("kept", 0, rates=(1.0, -1.0))},
            8,
            ["stale.backward", "stale.accumulate", "stale.rates"],
        ),
        ({"schedule": "decoupled", "stale": StaleOptions(rates=(1.0,))}, 8, ["stale.rates"]),
        ({"schedule": "1f1b_2bw", "microbatches": 2, "stale": StaleOptions(accumulate=2)}, 8, ["stale.accumulate"]),
        ({"schedule": "two_batches", "microbatches": 2}, 8, ["schedule"]),  # of an earlier version
        ({}, 0, ["batch_size"]),
        ({}, "8", ["batch_size"]),
        ({"schedule": "other", "microbatches": 2.0, "replicas": (1,)}, 8, ["schedule", "microbatches", "replicas"]),
    ],
)
def test_all_faults_are_named_by_their_fields(values: dict[str, Any], batch_size: Any, paths: list[str]) -> None:
    assert [fault.path for fault in Execution(**values).faults(batch_size, 2)] == paths


def test_a_plan_has_the_fields_of_an_execution_with_the_same_defaults() -> None:
    plan = {field.name: field for field in dataclasses.fields(PlanRecord)}
    for field in dataclasses.fields(Execution):
        assert (plan[field.name].type, plan[field.name].default) == (field.type, field.default)


def test_the_schedules_of_the_pipeline_search_have_clock_tables() -> None:
    assert set(SEARCHED_SCHEDULES) < set(CLOCKED_SCHEDULES) < set(SCHEDULES)
    assert {name: Execution(name).searched_schedule for name in SCHEDULES} == {
        "synchronous": "1f1b",
        "fill_drain": "fill_drain",
        "1f1b": "1f1b",
        "interleaved": "1f1b",
        "decoupled": "1f1b",
        "1f1b_2bw": "1f1b",
    }
