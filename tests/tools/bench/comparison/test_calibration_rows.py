"""Errors of plans by each profile, of those that refinement ran apart from the others, and without each term."""

from __future__ import annotations

from typing import Any

import pytest

from tools.bench.comparison.calibration_rows import errors, row, summarise, term_rows


def case(**changed: Any) -> dict[str, Any]:
    return {
        "network": "n",
        "batch": 8,
        "seed": "1",
        "cluster": "1.0,0.5",
        "calibration_s": {"default": 40.0, "thorough": 100.0},
        "refinement_s": 12.0,
        "gain": 1.1,
        "plans": {"alone 0": True, "alone 1": False, "batch default": False},
        "rounds_s": {"alone 0": [1.0, 1.0, 9.0], "alone 1": [2.0], "batch default": [0.5]},
        "predicted_s": {"default": [1.1, 2.0, 0.4], "thorough": [1.0, 2.0, 0.5], "refined": [1.0, 2.2, 0.6]},
        "without_s": {"nothing": [1.1, 2.0, 0.4], "latency": [1.0, 2.0, 0.25]},
        **changed,
    }


def test_errors_are_relative_to_the_median_and_of_the_plans_that_are_wanted() -> None:
    one = case()
    assert errors(one, [1.1, 2.0, 0.4]) == pytest.approx([0.1, 0.0, -0.2])
    assert errors(one, [1.1, 2.0, 0.4], True) == pytest.approx([0.1]) and errors(one, [1.1, 2.0, 0.4], False) == pytest.approx([0.0, -0.2])


def test_the_row_has_errors_of_each_profile() -> None:
    entry = row(case())
    assert entry.lists["default_errors"] == pytest.approx([0.1, 0.0, -0.2])
    assert entry.lists["run_errors"] == pytest.approx([0.0]) and entry.lists["never_run_errors"] == pytest.approx([0.1, 0.2])
    assert entry.numbers["default_s"] == 40.0 and entry.numbers["gain"] == 1.1


def test_a_case_that_failed_stays_and_takes_no_part_in_medians() -> None:
    failed = {key: case()[key] for key in ("network", "batch", "seed", "cluster")} | {"failure": "RuntimeError: no"}
    assert row(failed).texts["failure"] == "RuntimeError: no"
    assert term_rows([failed]) == [] and summarise([row(failed)]) == []
    assert len(term_rows([failed, case()])) == 2


def test_terms_tell_devices_alone_from_splits() -> None:
    full, without = term_rows([case(), case()])
    assert full.texts["term"] == "nothing" and full.numbers["split_median"] == pytest.approx(0.2)
    assert without.numbers["split_worst"] == pytest.approx(-0.5) and full.numbers["alone_worst"] == pytest.approx(0.1)


def test_the_summary_has_median_and_worst_of_all_cases() -> None:
    text = summarise([row(case()), row(case())])[0]
    assert "default calibration: median error 10.0%, worst -20.0%, 6 in all." in text
    assert "never ran: median error 15.0%, worst +20.0%, 4 in all." in text
