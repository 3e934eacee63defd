"""Tables of tab-separated values, as BIDS has them: a header, then one row a line."""

from __future__ import annotations

import csv
import dataclasses
import io
import os
import pathlib
from collections.abc import Mapping, Sequence

from hetero_mtf.data.volumes.cohort.fault import CohortFault
from hetero_mtf.errors import DataError
from hetero_mtf.units import bytes_text, value_text

MAX_TABLE_BYTES = 64 * 2**20
UNKNOWN = frozenset({"", "n/a", "na", "nan"})  # in any case; BIDS writes n/a, R NA, pandas nan or nothing


@dataclasses.dataclass(frozen=True)
class Row:
    """One row.

    Parameters
    ----------
    line : its line in the file, from 1.
    cells : column name -> what is written there, without blanks around; "" where it stands for unknown.
    written : column name -> what is written there, as it is.
    """

    line: int
    cells: Mapping[str, str]
    written: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class TsvTable:
    """Rows under named columns.

    Parameters
    ----------
    path : the file.
    columns : names, each once.
    rows : in the file's order, empty lines left out.
    faults : rows that could not be read.
    """

    path: pathlib.Path
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    faults: tuple[CohortFault, ...]


def read_table(path: str | os.PathLike[str]) -> TsvTable:
    """Return the rows of a file of tab-separated values.

    A byte order mark, Windows line ends, empty lines, empty cells at a row's end and cells in double quotes are understood.

    Parameters
    ----------
    path : the file, in UTF-8.

    Raises
    ------
    DataError
        If it cannot be read, is not UTF-8, is no such table, or names a column twice.
    """
    source = pathlib.Path(path)
    lines = _lines(source, _text(source))
    if not lines:
        raise DataError(f"{source} is empty; write a header line and one line a scan, with tabs between the cells")
    columns = _columns(source, lines[0][1])
    faults, rows = [], []
    for line, cells in lines[1:]:
        if any(cell.strip() for cell in cells[len(columns) :]):
            wrong = f"line {line}: it has {len(cells)} cells and the header {len(columns)}"
            faults.append(CohortFault(f"{wrong}; put one tab between two cells", line))
            continue
        written = dict(zip(columns, [*cells, *[""] * len(columns)]))
        rows.append(Row(line, {name: _known(cell) for name, cell in written.items()}, written))
    if not rows and not faults:
        raise DataError(f"{source} has a header and no rows; write one line a scan")
    return TsvTable(source, columns, tuple(rows), tuple(faults))


def _known(cell: str) -> str:
    bare = cell.strip()
    return "" if bare.lower() in UNKNOWN else bare


def _text(source: pathlib.Path) -> str:
    remedy = "save it as UTF-8 text with tabs between the cells"
    try:
        with open(source, "rb") as file:
            content = file.read(MAX_TABLE_BYTES + 1)
    except OSError as fault:
        raise DataError(f"cannot read {source}: {fault.strerror or fault}; check the path of the table") from fault
    if len(content) > MAX_TABLE_BYTES:
        raise DataError(f"{source} has more than {bytes_text(MAX_TABLE_BYTES)}, too much for a table; check the path")
    if b"\0" in content:
        raise DataError(f"{source} holds zero bytes, so it is not UTF-8 text; {remedy}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = content[: fault.start].count(b"\n") + 1
        raise DataError(f"{source} is not UTF-8 text: line {line} has the byte {content[fault.start]:#x}; {remedy}") from fault


def _lines(source: pathlib.Path, text: str) -> Sequence[tuple[int, list[str]]]:
    """Return the number and the cells of every line that is not empty."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter="\t", strict=True)
    numbered_lines, line = [], 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                numbered_lines.append((line, cells))
            line = reader.line_num + 1
    except csv.Error as fault:
        wrong = f"{source} cannot be read from line {line} on ({fault})"
        raise DataError(f"{wrong}; close every double quote, and double those within a quoted cell") from fault
    return numbered_lines


def _columns(source: pathlib.Path, cells: Sequence[str]) -> tuple[str, ...]:
    columns = [cell.strip() for cell in cells]
    while columns and not columns[-1]:
        columns.pop()
    if len(columns) == 1 and any(mark in columns[0] for mark in ",;"):
        raise DataError(f"{source} has the header {value_text(columns[0])}, without tabs; save the table with tabs between the cells")
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        wrong = f"{source} names the column{'s' if len(twice) > 1 else ''} {', '.join(map(value_text, twice))} twice"
        raise DataError(f"{wrong}; give each its own name")
    return tuple(columns)
