"""What is concluded from rounds: efficiencies, errors, and whether the plan that trains is slower than the fastest device alone."""

from __future__ import annotations

import doctest

import pytest

from tests.tools.bench.unseen_cases import failed_case, unseen_case
from tools.bench.comparison import unseen_rows
from tools.bench.comparison.unseen_rows import TABLE, conclusions, quartile_range_s, row, slower_than, summarise
from tools.results.publication import shown


def test_the_examples_hold() -> None:
    examples = doctest.testmod(unseen_rows)
    assert examples.attempted and not examples.failed


def test_efficiencies_are_parts_of_the_ideal_and_errors_parts_of_the_measured_step() -> None:
    figures = conclusions(unseen_case())
    assert figures["ideal_s"] == pytest.approx(0.2) and figures["ceiling"] == 0.9
    assert figures["efficiency"] == pytest.approx({"before": 0.2 / 0.28, "after": 0.8})
    assert figures["error"] == pytest.approx({"before": -0.25, "after": -0.04})
    assert figures["run_errors"] == {"first_predicted_s": [pytest.approx(-0.2)], "predicted_s": [pytest.approx(0.2)]}
    assert figures["times_fastest"] == pytest.approx(1.2) and not figures["violation"]
    assert figures["spread"] == pytest.approx(0.02)


@pytest.mark.parametrize("after_s, violated", [(0.299, False), (0.304, False), (0.32, True)])
def test_a_refined_plan_violates_the_claim_where_it_is_slower_beyond_the_spread(after_s: float, violated: bool) -> None:
    assert conclusions(unseen_case(after_s))["violation"] is violated


def test_without_refinement_the_plan_of_auto_is_judged() -> None:
    case = unseen_case(None)
    assert not conclusions(case)["violation"] and list(conclusions(case)["efficiency"]) == ["before"]
    assert conclusions({**case, "rounds_s": {**case["rounds_s"], "before": [0.4, 0.4, 0.4]}})["violation"]
    assert "efficiency_after" not in row(case) and "refinement_s" not in row(case)


def test_one_round_has_no_spread() -> None:
    assert quartile_range_s([1.0]) == 0.0 and slower_than([1.1], [1.0]) and not slower_than([1.0], [1.0])


def test_a_row_has_all_figures_and_a_failure_its_reason() -> None:
    whole_row, failed = row(unseen_case()), row(failed_case())
    assert {*whole_row.texts, *whole_row.numbers, *whole_row.lists} == {column.key for column in TABLE.columns} - {"failure"}
    assert failed.texts["failure"] == "WorkerError: worker:1 died" and not failed.numbers
    text = shown(TABLE, [whole_row, failed])
    assert "| 0000abcd | 1.0,0.5 | layers | filters | 300 / 600 | 200 | 400 | 210 | 280 | 240 | 250 | 0.71 | 0.80 | 0.90 | 0.85 |" in text
    assert "worker:1 died" in text


def test_the_summary_has_medians_of_each_cluster_violations_failures_and_errors() -> None:
    cases = [unseen_case(), unseen_case(0.2), unseen_case(0.5), unseen_case(0.25, "1.0,0.33"), failed_case()]
    (text,) = summarise([row(case) for case in cases])
    assert "At 1.0,0.5, 3 networks: median efficiency 0.71 (before refinement), 0.80 (after refinement), 0.90" in text
    assert "At 1.0,0.33, 1 network:" in text and "1 of 4. Failed: 1 of 5." in text
    assert "Predictions before refinement: median error 25.0%, worst -25.0%, 4 in all." in text
    assert "Plans tried by refinement, predicted from calibration alone: median error 20.0%" in text


def test_a_summary_of_failures_only_says_so() -> None:
    assert "0 networks: median efficiency not measured." in summarise([row(failed_case())])[0]
