"""The table of whole trainings: medians, what is wanted of the one that tries plans, and what is left out."""

from __future__ import annotations

from typing import Any

import pytest

from tools.bench.start.started_training import KERAS, MEASURES, ONE
from tools.bench.start.time_to_train import rounds_text, rows

TRIED, MEASURED_FIRST = MEASURES


def case() -> dict[str, Any]:
    def entry(first_step_s: float, end_s: float) -> dict[str, float]:
        return {"first_step_s": first_step_s, "end_s": end_s, "step_s": 0.5}

    runs = {TRIED: [(16, 90), (14, 70), (15, 80)], MEASURED_FIRST: [(90, 200)] * 3, ONE: [(13, 100)] * 3, KERAS: [(7, 60)] * 3}
    each = {name: [entry(*figures) for figures in entries] for name, entries in runs.items()}
    return {"network": "vgg8", "shares": [1.0, 0.5], "seconds": 60.0, "steps": 120, "runs": each}


def test_figures_are_medians_beside_one_device() -> None:
    table = {row.texts["arrangement"]: row for row in rows(case())}
    assert list(table) == [TRIED, MEASURED_FIRST, ONE, KERAS]
    assert table[TRIED].numbers == pytest.approx({"length_s": 60.0, "first_step_s": 15, "end_s": 80, "times_one": 0.8, "step_ms": 500})
    assert table[MEASURED_FIRST].numbers["times_one"] == 2.0


def test_only_of_the_training_that_tries_plans_something_is_wanted() -> None:
    wanted = {row.texts["arrangement"]: row.wanted for row in rows(case())}
    assert wanted[TRIED] == {"first_step_s": 15.0, "end_s": 110} and not any(wanted[name] for name in wanted if name != TRIED)


def test_one_round_is_said_to_be_one() -> None:
    assert rounds_text(3) == "Medians of 3 rounds." and rounds_text(1).startswith("One round")
