"""Tables of tab-separated values, as BIDS has them: a header, then one row a line."""

from __future__ import annotations

import csv
import dataclasses
import io
import os
import pathlib
from collections.abc import Mapping, Sequence

from hetero_mtf.data.volumes.cohort.fault import CohortFault
from hetero_mtf.data.volumes.cohort.spelling import cell_text, comparison_form
from hetero_mtf.errors import DataError
from hetero_mtf.units import bytes_text, value_text

MAX_TABLE_BYTES = 64 * 2**20
DOCUMENTED = frozenset({"", "n/a"})  # an empty cell, and what BIDS asks for
# What stands for unknown, in any capitals. Numbers such as -999 are not among them: in one table they are missing, in another a value.
_PROGRAMS = """na <na> nan -nan nat null none #n/a #na 1.#ind -1.#ind 1.#qnan -1.#qnan
    (null) [null] <null> \\n nil #null! #div/0! #ref! #name? #value! #num!""".split()  # R and pandas; databases; spreadsheets
_MARKS = ". ? - -- ---".split()  # the first that of SAS and Stata, the second that of Weka
_PHRASES = ("#n/a n/a", "unknown", "missing", "n.a.", "not available", "not applicable")
UNKNOWN = DOCUMENTED.union(_PROGRAMS, _MARKS, _PHRASES)
_OTHER_MARKS = ",;| "  # between the cells of what is not separated by tabs


@dataclasses.dataclass(frozen=True)
class Row:
    """One row.

    Parameters
    ----------
    line : its line in the file, from 1.
    cells : column name -> what is read there, as `cell_text`; "" where it stands for unknown.
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
    columns : names, each once, as `cell_text`.
    rows : in the file's order, empty lines left out.
    faults : rows that could not be read.
    """

    path: pathlib.Path
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    faults: tuple[CohortFault, ...]


def read_table(path: str | os.PathLike[str]) -> TsvTable:
    """Return the rows of a file of tab-separated values.

    A byte order mark, Windows line ends, empty lines, further empty cells at a row's end and cells in double quotes are understood. A row
    with fewer cells than the header is a fault: whichever is missing, those after it would be read as of other columns.

    Parameters
    ----------
    path : the file, in UTF-8.

    Raises
    ------
    DataError
        If it cannot be read, is not UTF-8, is no such table, names a column twice, or several rows are all of another length than the
        header.
    """
    source = pathlib.Path(path)
    text = _text(source)
    _check_tabs(source, text)
    lines = _lines(source, text)
    if not lines:
        raise DataError(f"{source} is empty", "write a header line and one line a scan, with tabs between the cells")
    columns = _columns(source, lines[0][1])
    faults, rows = [], []
    for line, cells in lines[1:]:
        if len(cells) < len(columns) or any(cell_text(cell) for cell in cells[len(columns) :]):
            faults.append(_length_fault(line, len(cells), len(columns)))
            continue
        written = dict(zip(columns, cells))
        rows.append(Row(line, {name: _known(cell) for name, cell in written.items()}, written))
    if not rows and len(faults) > 1:
        wrong = f"{source}: none of its {len(faults)} rows has as many cells as the header, {len(columns)}"
        example = f"such as line {lines[1][0]} with {len(lines[1][1])}"
        raise DataError(f"{wrong}, {example}", "name every column, and put one tab between two cells")
    if not rows and not faults:
        raise DataError(f"{source} has a header and no rows", "write one line a scan")
    return TsvTable(source, columns, tuple(rows), tuple(faults))


def _known(cell: str) -> str:
    return "" if comparison_form(cell) in UNKNOWN else cell_text(cell)


def _length_fault(line: int, count: int, columns: int) -> CohortFault:
    wrong = f"line {line}: it has {count} cell{'s' if count != 1 else ''} and the header {columns}"
    unknown = ", and n/a where nothing is known" if count < columns else ""
    return CohortFault(f"{wrong}; put one tab between two cells{unknown}", line)


def _text(source: pathlib.Path) -> str:
    remedy = "save it as UTF-8 text with tabs between the cells"
    try:
        with open(source, "rb") as file:
            content = file.read(MAX_TABLE_BYTES + 1)
    except OSError as fault:
        raise DataError(f"cannot read {source}: {fault.strerror or fault}", "check the path of the table") from fault
    if len(content) > MAX_TABLE_BYTES:
        raise DataError(f"{source} has more than {bytes_text(MAX_TABLE_BYTES)}, too much for a table", "check the path")
    if b"\0" in content:
        raise DataError(f"{source} holds zero bytes, so it is not UTF-8 text", remedy)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = content[: fault.start].count(b"\n") + 1
        raise DataError(f"{source} is not UTF-8 text: line {line} has the byte {content[fault.start]:#x}", remedy) from fault


def _check_tabs(source: pathlib.Path, text: str) -> None:
    """Refuse a table with other marks than tabs; before quotes are read, which stand elsewhere where cells are not what they seem."""
    header = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if "\t" not in header and any(mark in header for mark in _OTHER_MARKS):
        raise DataError(f"{source} has the header {value_text(header)}, without tabs", "save the table with tabs between the cells")


def _lines(source: pathlib.Path, text: str) -> Sequence[tuple[int, list[str]]]:
    """Return the number and the cells of every line that is not empty."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter="\t", strict=True)
    numbered_lines, line = [], 1
    try:
        for cells in reader:
            if any(cell_text(cell) for cell in cells):
                numbered_lines.append((line, cells))
            line = reader.line_num + 1
    except csv.Error as fault:
        wrong = f"{source} cannot be read from line {line} on ({fault})"
        raise DataError(wrong, "close every double quote, and double those within a quoted cell") from fault
    return numbered_lines


def _columns(source: pathlib.Path, cells: Sequence[str]) -> tuple[str, ...]:
    columns = [cell_text(cell) for cell in cells]
    while columns and not columns[-1]:
        columns.pop()
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        wrong = f"{source} names the column{'s' if len(twice) > 1 else ''} {', '.join(map(value_text, twice))} twice"
        raise DataError(wrong, "give each its own name")
    return tuple(columns)
