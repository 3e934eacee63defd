"""Time lines: what each device does when in a step of a pipeline, and how a terminal shows it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hetero_mtf.planning.schedule.clock_table import BACKWARD, FORWARD
from hetero_mtf.planning.schedule.simulator import UPDATE
from hetero_mtf.report.colours import TRANSFER
from hetero_mtf.units import seconds_text

KINDS = (FORWARD, BACKWARD, UPDATE, TRANSFER)
COLUMNS = 100
# The first letter of a bar, and what fills the rest of it.
_MARKS = {FORWARD: ("f", "-"), BACKWARD: ("b", "="), UPDATE: ("u", "~")}
KEY = "f0--- forward pass of microbatch 0, b0=== its backward pass, u~~~ update, ... idle"


@dataclasses.dataclass(frozen=True)
class Span:
    """One bar of a time line.

    Parameters
    ----------
    row : index of its row.
    kind : one of `KINDS`; a transfer is drawn thin.
    label : what is written into it, such as the number of the microbatch.
    told : what it is, in words.
    start_s, end_s : seconds since the first task began.
    """

    row: int
    kind: str
    label: str
    told: str
    start_s: float
    end_s: float


@dataclasses.dataclass(frozen=True)
class TimeLine:
    """Bars over time, in rows.

    Parameters
    ----------
    rows : what each row stands for, such as a device and its stage.
    spans : the bars.
    total_s : seconds from the left edge to the right.
    """

    rows: tuple[str, ...]
    spans: tuple[Span, ...]
    total_s: float

    @property
    def end_s(self) -> float:
        """Seconds until the last bar ends."""
        return max((span.end_s for span in self.spans), default=0.0)


def time_line_text(line: TimeLine, columns: int = COLUMNS) -> list[str]:
    """Return a time line for a terminal: a scale, then a text line a row.

    Parameters
    ----------
    line : TimeLine; its transfers are left out.
    columns : characters of a text line. A bar narrower than one is not shown.

    Examples
    --------
    >>> spans = [Span(0, "forward", "0", "", 0.0, 0.3), Span(1, "backward", "0", "", 0.3, 0.9), Span(1, "update", "", "", 0.9, 1.0)]
    >>> print(*time_line_text(TimeLine(("cpu:0", "cpu:1"), tuple(spans), 1.0), 17), sep="\\n")
           0 s  1.00 s
    cpu:0  f0-.......
    cpu:1  ...b0====u
    """
    names = max(map(len, line.rows), default=0)
    width = max(10, columns - names - 2)
    cells = [["."] * width for _ in line.rows]
    for span in line.spans:
        if span.kind in _MARKS and line.total_s > 0:
            begin, end = (round(width * time_s / line.total_s) for time_s in (span.start_s, span.end_s))
            cells[span.row][begin:end] = _bar(span, min(end, width) - begin)
    end_text = seconds_text(line.total_s)
    scale = f"{'':{names}}  0 s{end_text:>{max(width - 3, len(end_text) + 2)}}"
    return [scale, *(f"{name:{names}}  {''.join(row)}" for name, row in zip(line.rows, cells))]


def _bar(span: Span, width: int) -> str:
    letter, filling = _MARKS[span.kind]
    begin = f"{letter}{span.label}" if len(span.label) < width else letter
    return begin.ljust(width, filling)[: max(0, width)]


def named(counted: str, numbers: Sequence[int]) -> str:
    """Return a few numbered things as words.

    Parameters
    ----------
    counted : what one of them is called.
    numbers : which of them, at least one.

    Examples
    --------
    >>> named("stage", (2,)), named("stage", (0, 2))
    ('stage 2', 'stages 0 and 2')
    """
    if len(numbers) == 1:
        return f"{counted} {numbers[0]}"
    return f"{counted}s {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
