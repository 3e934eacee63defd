"""The plans of a training as a section: from which step to which each was in force, and how fast its steps were."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Sequence

from hetero_mtf.planning.exploration.plan_history import PlanHistory, PlanSpan
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.report.section import Bar, Bars, Section
from hetero_mtf.report.table import NOTHING, Table
from hetero_mtf.units import seconds_text

TITLE = "Plans of the training"
SETTLING = 2  # steps after a move that are longer: the first builds, and the next may wait for it


def timed_history(history: PlanHistory, timed_steps: Sequence[tuple[int, float]], steps: int) -> PlanHistory:
    """Return plans with the median seconds of their steps, where these were not measured before.

    Parameters
    ----------
    history : the plans.
    timed_steps : number of steps taken before a step, and its seconds.
    steps : number of steps taken in all.
    """
    ends = [*(span.step for span in history.spans[1:]), None]
    return PlanHistory(tuple(_timed(span, end, timed_steps) for span, end in zip(history.spans, ends)), steps)


def _timed(span: PlanSpan, end: int | None, timed_steps: Sequence[tuple[int, float]]) -> PlanSpan:
    own = [seconds for step, seconds in timed_steps if step >= span.step + SETTLING and (end is None or step < end)]
    return dataclasses.replace(span, step_s=statistics.median(own)) if span.step_s is None and own else span


def plan_spans(history: PlanHistory, name_of: Callable[[Plan], str]) -> Section:
    """Return the plans in the order of their steps, as a table and a time line.

    Parameters
    ----------
    history : the plans, with seconds of their steps where these are known.
    name_of : returns a few words for a plan.
    """
    ends = [*(span.step for span in history.spans[1:]), history.steps]
    counts = [None if end is None else max(0, end - span.step) for span, end in zip(history.spans, ends)]
    first_s = history.spans[0].step_s
    rows = []
    for span, end in zip(history.spans, ends):
        steps_text = f"{span.step}-" if end is None else f"{span.step}-{max(span.step, end - 1)}"
        rate = NOTHING if span.step_s is None else f"{1 / span.step_s:.3g}"
        times = NOTHING if span.step_s is None or first_s is None else f"{first_s / span.step_s:.2f}"
        rows.append((name_of(span.plan), steps_text, NOTHING if span.step_s is None else seconds_text(span.step_s), rate, times))
    table = Table(("plan", "steps", "time/step", "steps/s", "relative to the first"), tuple(rows))
    moves = len(history.spans) - 1
    sentence = "one plan was in force" if not moves else f"{moves} move{'s' * (moves > 1)} between plans"
    return Section(TITLE, (sentence,), table, _bars(history, name_of, counts))


def _bars(history: PlanHistory, name_of: Callable[[Plan], str], counts: Sequence[int | None]) -> Bars | None:
    """Return which part of the steps, and of their seconds, each plan had; None where the end is not known."""
    if any(count is None for count in counts) or not any(counts):
        return None
    spans = history.spans
    series = (*(f"{name_of(span.plan)} from step {span.step}" for span in spans), "")
    numbers = [float(count or 0) for count in counts]
    bars = [Bar("steps", (*numbers, 0.0), (*(f"{number:.0f}" for number in numbers), ""))]
    if all(span.step_s is not None for span in spans):
        seconds = [number * (span.step_s or 0.0) for number, span in zip(numbers, spans)]
        rates = (f"{seconds_text(each)}, {1 / (span.step_s or 1.0):.3g} steps/s" for each, span in zip(seconds, spans))
        bars.append(Bar("time", (*seconds, 0.0), (*rates, "")))
    return Bars(series, tuple(bars))
