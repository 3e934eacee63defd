"""Tables for people: made once, shown as text in a terminal or as Markdown."""

from __future__ import annotations

import dataclasses
import io
import os
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from hetero_mtf.devices import ClusterRecord
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.plan.plan_text import Part, part_text, processor_parts, stage_rows
from hetero_mtf.report.step_time import StepTime, StepTimes
from hetero_mtf.units import bytes_text, seconds_text

NOTHING = "-"
BESIDE_UP_TO = 12  # devices whose columns fit beside each other
LOG_COLUMNS = 120  # characters of a line where the output is no terminal
_FOLDED_FROM = 26  # characters; a cell of as many, in a column that is flush left, may be folded between its words
_GAP = 3  # characters between two columns
_UNIT = re.compile(r"(\d) (?=(?:[mun]?s|h|min|%|x|[KMGT]?i?B|MiB/s|GiB/s|samples|times)\b)")


def terminal_columns() -> int | None:
    """Return how many characters fit in a line of the terminal that the output goes to; None where it goes to no terminal."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (AttributeError, OSError, ValueError):  # no stream, no terminal, a closed stream
        return None


def folded(sentence: str, columns: int | None, indent: str = "  ") -> list[str]:
    """Return a sentence in lines of at most so many characters, folded between words but not between a number and its unit.

    Parameters
    ----------
    columns : characters of a line; None to fold nothing.
    indent : what lines after the first begin with.

    Examples
    --------
    >>> folded("the devices are balanced", 14)
    ['the devices', '  are balanced']
    """
    if columns is None:
        return [sentence]
    joined = _UNIT.sub("\\1\u00a0", sentence)
    lines = textwrap.wrap(joined, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\u00a0", " ") for line in lines] or [""]


def folded_text(text: str, columns: int | None = None) -> str:
    """Return a text with each of its lines folded.

    Parameters
    ----------
    columns : characters of a line; None for those of the terminal, or to fold nothing where there is none.
    """
    columns = columns or terminal_columns()
    return "\n".join(part for line in text.splitlines() for part in folded(line, columns))


@dataclasses.dataclass(frozen=True)
class Table:
    """A heading row and rows of text.

    Parameters
    ----------
    headings : (columns,) texts.
    rows : (rows, columns) texts.
    title : text above the table.
    left : how many columns, from the first, are flush left; the others are flush right.
    keys : how many columns, from the first, say what a row is of; they are repeated where a table is too wide and goes on below.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    left: int = 1
    keys: int = 1

    def text(self, width: int | None = None) -> str:
        """Return the table for a terminal.

        Parameters
        ----------
        width : characters of a line at most; None for those of the terminal, 120 where there is none.

        Notes
        -----
        Headings and long cells are folded between their words, numbers never. Columns that do not fit even so follow below, beside the
        key columns again.
        """
        width = width or terminal_columns() or LOG_COLUMNS
        parts = [self._drawn(columns, width) for columns in self._parts(width)]
        return "\n\n".join([f"{self.title}\n{parts[0]}", *parts[1:]] if self.title else parts)

    def markdown(self) -> str:
        """Return the table in Markdown, its title as a line of its own."""
        rule = ["---" if index < self.left else "---:" for index in range(len(self.headings))]
        lines = [_markdown_row(self.headings), "| " + " | ".join(rule) + " |", *(_markdown_row(row) for row in self.rows)]
        return "\n".join([self.title, "", *lines] if self.title else lines)

    def _parts(self, width: int) -> list[list[int]]:
        """Return the columns of each part of the table, the key columns first."""
        keys, parts = list(range(min(self.keys, len(self.headings)))), list[list[int]]()
        for column in range(len(keys), len(self.headings)):
            if not parts or _length([self._least(c) for c in (*parts[-1], column)]) > width:
                parts.append(list(keys))
            parts[-1].append(column)
        return parts or [keys]

    def _cells(self, column: int) -> Iterator[str]:
        yield from (row[column] for row in self.rows)

    def _least(self, column: int) -> int:
        """Return the characters that a column takes at least: those of its longest word, or of its longest number with its unit."""
        longest = max(map(len, self._cells(column)), default=0)
        folded = column < self.left and longest >= _FOLDED_FROM
        words = [*self.headings[column].split(), *(word for cell in self._cells(column) for word in cell.split() if folded)]
        return max([*map(len, words), _FOLDED_FROM if folded else longest])

    def _widths(self, columns: Sequence[int], width: int) -> list[int]:
        """Return the characters of each column: as many as its longest text where they fit, fewer of the widest columns where not."""
        widths = [max(map(len, (self.headings[column], *self._cells(column)))) for column in columns]
        least = [self._least(column) for column in columns]
        while _length(widths) > width:
            wide = [at for at in range(len(widths)) if widths[at] > least[at]] or list(range(len(widths)))
            widths[max(wide, key=lambda at: widths[at])] -= 1
        return widths

    def _drawn(self, columns: Sequence[int], width: int) -> str:
        table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        widths = self._widths(columns, width)
        for column, size in zip(columns, widths):
            side = "left" if column < self.left else "right"
            table.add_column(Text(self.headings[column]), justify=side, overflow="fold", width=size)  # type: ignore[arg-type]
        for row in self.rows:
            table.add_row(*(Text("\n".join(folded(row[column], size, ""))) for column, size in zip(columns, widths)))
        page = io.StringIO()
        Console(file=page, width=width, color_system=None, force_terminal=False, legacy_windows=False).print(table)
        return "\n".join(line.rstrip() for line in page.getvalue().splitlines()).strip("\n")


def devices_table(cluster: ClusterRecord) -> Table:
    """Return the devices of a cluster with what they are and the memory they can use."""
    rows = tuple(
        (str(index), d.name, d.kind, d.model or NOTHING, d.host, bytes_text(d.memory_bytes), d.share_text)
        for index, d in enumerate(cluster.devices)
    )
    return Table(("index", "device", "kind", "model", "host", "memory", "share"), rows, left=5)


def plan_table(plan: Plan) -> Table:
    """Return the layers of a plan with their layout and the units or samples of each device; a device outside a stage has none."""
    rows: list[tuple[str, ...]] = []
    for index, stage in enumerate(plan.stages):
        for name, layout, *cells in stage_rows(stage, plan.devices)[1:]:
            units = dict(zip(stage.devices, cells))
            rows.append((str(index), name, layout, *(units.get(d, NOTHING) for d in range(len(plan.devices)))))
    title = f"Plan by strategy {plan.strategy}, batch size {plan.batch_size}"
    return Table(("stage", "layer", "layout", *plan.devices), tuple(rows), title, left=3, keys=2)


def sizes_table(plan: Plan) -> Table:
    """Return `plan_table`, or for more devices than fit beside each other the least and the most that one of them has of each layer."""
    full_table = plan_table(plan)
    if len(plan.devices) <= BESIDE_UP_TO:
        return full_table
    rows = tuple(
        (str(index), name, layout, *_extremes(processor_parts(entry, stage)))
        for index, stage in enumerate(plan.stages)
        for entry, (name, layout, *_) in zip(stage.layouts, stage_rows(stage, plan.devices)[1:])
    )
    return Table(("stage", "layer", "layout", "devices", "least", "most"), rows, full_table.title, left=3, keys=2)


def _extremes(parts: Sequence[Part]) -> tuple[str, str, str]:
    """Return how many devices have a part of a layer, and the least and the most of them."""
    held = sorted((part for part in parts if part != (0,)), key=lambda part: [number for number in part if number is not None])
    return (str(len(held)), part_text(held[0]), part_text(held[-1])) if held else ("0", NOTHING, NOTHING)


def prediction_table(plan: Plan) -> Table:
    """Return what each device of a plan is predicted to do in one step; no rows for a manual plan."""
    parts = plan.predicted.parts if plan.predicted is not None else ()
    rows = tuple(
        (p.device, seconds_text(p.compute_s), seconds_text(p.communication_s), seconds_text(p.idle_s), bytes_text(p.memory_bytes))
        for p in parts
    )
    return Table(("device", "compute", "communication", "idle", "memory"), rows, "Predicted for one step")


def alternatives_table(plan: Plan) -> Table:
    """Return the alternatives considered, and why each was not chosen."""
    rows = tuple((a.strategy, _seconds(a.step_s), a.reason) for a in plan.alternatives)
    return Table(("alternative considered", "step", "why not"), rows, left=3)


def considered_table(plan: Plan) -> Table:
    """Return `alternatives_table` with the step of the bottleneck device in each."""
    rows = []
    for other in plan.alternatives:
        part = other.bottleneck
        spent = (
            (part.device, *map(seconds_text, (part.compute_s, part.communication_s, part.idle_s))) if part is not None else (NOTHING,) * 4
        )
        rows.append((other.strategy, _seconds(other.step_s), *spent, other.reason))
    return Table(("alternative considered", "step", "bottleneck", "compute", "communication", "idle", "why not"), tuple(rows), left=7)


def contribution_table(plan: Plan) -> Table:
    """Return for each device whether the plan uses it, the predicted step if it did the opposite, and what follows."""
    rows = tuple((w.device, "uses it" if w.used else "leaves it out", _seconds(w.step_s), w.reason) for w in plan.contributions)
    return Table(("device", "the plan", "step otherwise", "contribution"), rows, left=4)


def step_time_table(times: StepTimes) -> Table:
    """Return seconds a step on each device alone, split equally or simpler and as planned, the ideal, and the efficiency reached."""
    rows = [_time_row(f"{entry.name} alone", entry, times) for entry in times.alone]
    rows += [_time_row(entry.name, entry, times) for entry in (times.equal, *times.simpler, times.planned) if entry is not None]
    rows.append(_time_row("ideal", times.ideal, times))
    rows.append(("efficiency (ideal / planned)", _percent(times.efficiency(measured=False)), _percent(times.efficiency(measured=True)), ""))
    return Table(("one training step", "predicted", "measured", "relative to the plan"), tuple(rows))


def _time_row(name: str, entry: StepTime, times: StepTimes) -> tuple[str, ...]:
    ratio = times.ratio(entry)
    return (name, _seconds(entry.predicted_s), _seconds(entry.measured_s), NOTHING if ratio is None else f"{ratio:.2f}")


def _seconds(value: float | None) -> str:
    return NOTHING if value is None else seconds_text(value)


def _percent(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def _length(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _markdown_row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
