"""How long stages rest between one step and the next, read off the traces of steps that overlap."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import Any

from tools.bench.comparison.recorded_steps import recorded_steps

_TASK = re.compile(r"/stage(\d+)_(?:forward|backward)\d+/")
EDGE = 0.01  # part of a stage's work in a step before which it has not begun, and that may be left when it is done


def border_idle_s(trainer: Any, x: Any, y: Any, steps: int = 5) -> list[float]:
    """Return the (stages,) median seconds from the end of a stage's work in a step to its beginning in the next step.

    Parameters
    ----------
    trainer : Trainer by a plan of a schedule without a flush, with all stages at work.
    x, y : (batch, ...) one batch, which every step trains on.
    steps : steps that are traced, at least two.
    """
    records = recorded_steps(trainer, x, y, steps)
    spans = sorted((_spans_s(stats) for stats in records), key=lambda span: min(start for start, _ in span.values()))
    between = [{stage: later[stage][0] - earlier[stage][1] for stage in earlier} for earlier, later in zip(spans, spans[1:])]
    return [statistics.median(each[stage] for each in between) for stage in sorted(spans[0])]


def _spans_s(step_stats: Any) -> dict[int, tuple[float, float]]:
    """Return stage -> when its work in a step began and was done, seconds."""
    operations: dict[int, list[tuple[float, float]]] = {}
    for entry in step_stats.dev_stats:
        for node in entry.node_stats:
            task = _TASK.search(node.node_name)
            if task:
                start_s = node.all_start_micros / 1e6
                interval = start_s + node.op_start_rel_micros / 1e6, start_s + node.op_end_rel_micros / 1e6
                operations.setdefault(int(task.group(1)), []).append(interval)
    return {stage: span_s(intervals) for stage, intervals in operations.items()}


def span_s(intervals: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return when the work of operations began and was done, a hundredth of it at either edge left out.

    Constants and copies of what is fed are there before a step's turn has come.

    Parameters
    ----------
    intervals : begin and end of each operation, seconds.

    Examples
    --------
    >>> span_s([(0.0, 0.001), (5.0, 6.0), (6.0, 7.0)])
    (5.0, 7.0)
    """
    total_s = sum(end - begin for begin, end in intervals)
    done_s, begun, stopped = 0.0, None, 0.0
    for begin, end in sorted(intervals):
        done_s += end - begin
        if begun is None and done_s > EDGE * total_s:
            begun = begin
        if done_s <= (1 - EDGE) * total_s or stopped == 0.0 or end - begin > EDGE * total_s:
            stopped = max(stopped, end)
    return begun if begun is not None else 0.0, stopped
