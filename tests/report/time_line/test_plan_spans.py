"""The plans of a training as a table and a picture."""

from __future__ import annotations

import pytest

from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.exploration.plan_history import PlanHistory, PlanSpan
from hetero_mtf.report.page import page
from hetero_mtf.report.section import sections_text
from hetero_mtf.report.time_line.plan_spans import TITLE, plan_spans, timed_history
from tests.planning.networks import pair_net, profile_of

PROFILE = profile_of(pair_net(24, 24, 24), [2e6, 1e6], 1e-6, batch_size=8)
SINGLE, SPLIT = (plan(PROFILE, strategy=strategy) for strategy in ("single", "filters"))
TIMED = PlanHistory((PlanSpan(0, SINGLE, 0.5), PlanSpan(10, SPLIT, 0.25)), 50)


def test_each_plan_has_its_steps_and_how_fast_they_were() -> None:
    section = plan_spans(TIMED, lambda each: each.strategy)
    assert section.table is not None and section.sentences == ("1 move between plans",)
    assert section.table.rows == (("single", "0-9", "500 ms", "2", "1.00"), ("filters", "10-49", "250 ms", "4", "2.00"))
    assert section.bars is not None and [bar.label for bar in section.bars.bars] == ["steps", "time"]
    assert section.bars.bars[0].parts == (10.0, 40.0, 0.0) and section.bars.bars[1].parts == (5.0, 10.0, 0.0)
    assert "10.0 s, 4 steps/s" in page("a training", [section]) and TITLE in sections_text([section], 80)


def test_what_is_not_known_is_a_dash_and_no_picture() -> None:
    history = PlanHistory((PlanSpan(0, SINGLE), PlanSpan(10, SPLIT)))
    section = plan_spans(history, lambda each: each.strategy)
    assert section.table is not None and section.bars is None
    assert section.table.rows == (("single", "0-9", "-", "-", "-"), ("filters", "10-", "-", "-", "-"))
    assert plan_spans(PlanHistory((PlanSpan(0, SINGLE),), 0), str).bars is None  # no step at all


def test_seconds_that_no_move_tells_of_are_those_of_the_steps_that_have_settled() -> None:
    history = PlanHistory((PlanSpan(0, SINGLE, 0.5), PlanSpan(3, SPLIT), PlanSpan(20, SINGLE)))
    timed = timed_history(history, [(2, 9.0), (3, 9.0), (4, 9.0), (5, 0.25), (6, 0.35), (7, 0.25), (20, 9.0), (21, 9.0)], 22)
    assert [span.step_s for span in timed.spans] == [0.5, pytest.approx(0.25), None] and timed.steps == 22
    assert timed == history
