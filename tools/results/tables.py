"""Result tables in Markdown: beside a figure stands what was wanted of it, and a table says which run it is from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hetero_mtf.report.table import NOTHING, Table
from tools.results.records import Column, Note, ResultSet, Row, Run

COMMIT_DIGITS = 9
TICK, CROSS = "✓", "✗"
SIGNS = {"at_least": "≥", "at_most": "≤", "within": "±"}  # of `TARGETS`
_TARGET = "target"
_CLOSE = 0.999  # units of the last digit


def table(columns: Sequence[Column], rows: Sequence[Row], targets: bool = True) -> str:
    """Return rows as a Markdown table; columns that no row has are left out.

    Parameters
    ----------
    columns : to show, in their order.
    rows : to show, in their order.
    targets : whether a column of targets stands behind each column that something is wanted of: the limit, and whether it is met.
    """
    present = [column for column in columns if any(column.key in row for row in rows)]
    shown = [(column, wants) for column in present for wants in (False, True) if not wants or (targets and _is_wanted(column, rows))]
    headings = tuple(_TARGET if wants else column.title for column, wants in shown)
    cells = tuple(tuple(target_text(column, row) if wants else _cell(column, row) for column, wants in shown) for row in rows)
    left = next((i for i, (column, _) in enumerate(shown) if not any(column.key in row.texts for row in rows)), len(shown))
    return Table(headings, cells, left=left).markdown()


def target_text(column: Column, row: Row) -> str:
    """Return what is wanted of a row's number, and a tick or a cross; a dash where nothing is.

    Parameters
    ----------
    column : of the number.
    row : the row.

    Examples
    --------
    >>> target_text(Column("efficiency", "efficiency", ".2f", "at_least", 0.85), Row(0, {}, {"efficiency": 0.8}))
    '≥ 0.85 ✗'
    """
    limit = row.limit(column)
    if limit is None or column.key not in row.numbers:
        return NOTHING
    return f"{SIGNS[column.target]} {limit_text(column, limit)} {CROSS if row.misses(column) else TICK}"


def _is_wanted(column: Column, rows: Iterable[Row]) -> bool:
    return any(target_text(column, row) != NOTHING for row in rows)


def number_text(column: Column, value: float, limit: float | None, missed: bool) -> str:
    """Return a number in a column's format; a miss by less than a unit of the last digit gets another digit.

    Parameters
    ----------
    column : whose format it is.
    value, limit : the number, and what is wanted.
    missed : whether the number is worse than the limit.

    Examples
    --------
    >>> number_text(Column("efficiency", "efficiency", ".2f"), 0.8463, 0.85, missed=True)
    '0.846'
    >>> number_text(Column("efficiency", "efficiency", ".2f"), 0.72, 0.85, missed=True)
    '0.72'
    """
    fixed = re.fullmatch(r"(.*)\.(\d+)([f%])", column.number)
    if missed and limit is not None and fixed is not None:
        digits, scale = int(fixed[2]), 100 if fixed[3] == "%" else 1
        if abs(abs(value) - limit) * scale < _CLOSE * 10**-digits:
            return format(value, f"{fixed[1]}.{digits + 1}{fixed[3]}")
    return format(value, column.number)


def provenance(results: ResultSet, rows: Sequence[int]) -> list[str]:
    """Return lines that say of each run of some rows when it was, at which commit and on which machine.

    Parameters
    ----------
    results : the table.
    rows : indices of the rows that are shown.
    """
    runs = [results.runs[results.rows[i].run] for i in rows]
    different = list(dict.fromkeys(runs))
    origins = list(dict.fromkeys(map(_origin, different)))
    if len(different) == 1:
        return origins
    lines = []
    for run in different:
        places = [str(at) for at, own in enumerate(runs, 1) if own == run]
        which = f"Row {places[0]}" if len(places) == 1 else f"Rows {_ranges(places)}"
        origin = f". {_origin(run)}" if len(origins) > 1 else ""
        lines.append(f"- {which}: `{run.command}`{origin}")
    return [*lines, "", *origins] if len(origins) == 1 else lines


def note_text(results: ResultSet, note: Note, rows: Sequence[int]) -> str:
    """Return a note, with its run where that did not measure the rows that are shown.

    Parameters
    ----------
    results : the table.
    note : one of its notes.
    rows : indices of the rows that are shown.
    """
    run = results.runs[note.run]
    if run in {results.runs[results.rows[i].run] for i in rows}:
        return note.text
    origin = _origin(run)
    return f"{note.text} (`{run.command}`; {origin[0].lower()}{origin[1:-1]}.)"


def _origin(run: Run) -> str:
    version = f", TensorFlow {run.machine.tensorflow}" if run.machine.tensorflow else ""
    machine = f"{run.machine.cpu}, {run.machine.cores} cores{version}"
    if run.transcribed_from is not None:
        return f"Transcribed from the README of commit `{_short(run.transcribed_from)}` ({run.date}), measured on {machine}."
    at = f" at commit `{_short(run.commit)}`" if run.commit else ""
    return f"Measured {run.date}{at} on {machine}."


def _short(commit: str) -> str:
    number, dash, state = commit.partition("-")
    return f"{number[:COMMIT_DIGITS]}{dash}{state}"


def _ranges(places: Sequence[str]) -> str:
    """Return places as text, runs of them joined: ["1", "2", "3", "7"] is "1-3, 7"."""
    groups: list[list[int]] = []
    for place in map(int, places):
        if groups and groups[-1][-1] == place - 1:
            groups[-1].append(place)
        else:
            groups.append([place])
    return ", ".join(str(group[0]) if len(group) == 1 else f"{group[0]}-{group[-1]}" for group in groups)


def _cell(column: Column, row: Row) -> str:
    if column.key in row.texts:
        return row.texts[column.key]
    if column.key in row.lists:
        return " / ".join(format(value, column.number) for value in row.lists[column.key])
    if column.key not in row.numbers:
        return NOTHING
    return number_text(column, row.numbers[column.key], row.limit(column), row.misses(column))


def limit_text(column: Column, limit: float) -> str:
    """Return a limit as it is written.

    Parameters
    ----------
    column : that it is of.
    limit : a number.
    """
    return f"{100 * limit:g}%" if column.number.endswith("%") else f"{limit:,g}"
