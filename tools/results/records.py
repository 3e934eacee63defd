"""The JSON of a result table: what was measured, by which command, on which machine and commit, and what was wanted."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.errors import DataError
from hetero_mtf.json_file import read_json, write_json
from hetero_mtf.json_records import Fault, listed, read_fields, unchecked, unless_caused

KIND, VERSION = "result", 1
TARGETS = {"at_least": "at least", "at_most": "at most", "within": "within"}
_NAME = re.compile(r"[a-z0-9_]+")
_SLACK = 1e-9  # relative, of a comparison with a target


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    key : name of its entries in the rows.
    title : heading, with the unit.
    number : format of its numbers, as of `format`.
    target : "at_least", "at_most" or "within" (of the magnitude); "" where nothing is wanted.
    wanted : the limit for all rows; None where rows have their own.
    """

    key: str
    title: str
    number: str = "g"
    target: str = ""
    wanted: float | None = None


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a table; an entry that is missing was not measured.

    Parameters
    ----------
    run : index of the run that measured it.
    texts, numbers, lists : column key -> entry; a list is several numbers in one cell.
    wanted : column key -> limit of this row, which precedes that of the column.
    """

    run: int = 0
    texts: dict[str, str] = dataclasses.field(default_factory=dict)
    numbers: dict[str, float] = dataclasses.field(default_factory=dict)
    lists: dict[str, tuple[float, ...]] = dataclasses.field(default_factory=dict)
    wanted: dict[str, float] = dataclasses.field(default_factory=dict)

    def __contains__(self, key: object) -> bool:
        return any(key in entries for entries in (self.texts, self.numbers, self.lists))

    def limit(self, column: Column) -> float | None:
        """Return what is wanted of a column in this row, None where nothing is."""
        return self.wanted.get(column.key, column.wanted) if column.target else None

    def misses(self, column: Column) -> bool:
        """Return whether the row's number in a column is worse than what is wanted."""
        limit, value = self.limit(column), self.numbers.get(column.key)
        if limit is None or value is None:
            return False
        slack = _SLACK * abs(limit)
        return (
            value < limit - slack if column.target == "at_least" else (abs(value) if column.target == "within" else value) > limit + slack
        )


@dataclasses.dataclass(frozen=True)
class Machine:
    """Where a run took place.

    Parameters
    ----------
    cpu : model of the CPU.
    cores : cores that the run could use.
    tensorflow : version of TensorFlow; None where it is not known.
    """

    cpu: str
    cores: int
    tensorflow: str | None = None


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of a command.

    Parameters
    ----------
    command : as one would type it in a clone.
    date : day, such as "2026-11-21"; of transcribed rows that of the commit.
    machine : where it ran.
    commit : commit of the sources; ends with "-dirty" where sources were changed; None where it is not known.
    transcribed : whether its rows were transcribed from a page instead of written by the command.
    transcribed_from : the commit of that page; None where they were not.
    """

    command: str
    date: str
    machine: Machine
    commit: str | None = None
    transcribed: bool = False
    transcribed_from: str | None = None


@dataclasses.dataclass(frozen=True)
class Note:
    """Text in Markdown that belongs to a run.

    Parameters
    ----------
    text : sentences.
    run : index of the run.
    """

    text: str
    run: int = 0


@dataclasses.dataclass(frozen=True)
class ResultSet:
    """A table of results.

    Parameters
    ----------
    name : of its file, such as "uneven_split".
    title : one phrase for the page.
    columns : in their order.
    rows : in their order.
    runs : that measured the rows and what the notes say.
    summary : sentences computed from all rows.
    notes : of single runs.

    Raises
    ------
    DataError
        If names, runs or targets do not fit together; all faults at once.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    runs: tuple[Run, ...]
    summary: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        faults = _faults(self)
        if faults:
            raise DataError(f"the results have {listed(faults)}", "run the bench again")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the results to a JSON file in one piece.

        Parameters
        ----------
        path : path of the file to write or replace.
        """
        write_json(path, {"kind": KIND, "version": VERSION, **_compact(dataclasses.asdict(self))})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ResultSet:
        """Return the results in a file written by `save`.

        Parameters
        ----------
        path : path of the file.

        Raises
        ------
        HeteroError
            If the file cannot be read, is not of this kind and version, or has faults; all faults at once.
        """
        document = read_json(path, kind=KIND, version=VERSION)
        faults: list[Fault] = []
        values = read_fields(cls, {key: value for key, value in document.items() if key not in ("kind", "version")}, "", faults)
        faults += unless_caused(_faults(unchecked(cls, values)), faults)
        if faults:
            raise DataError(f"{os.fspath(path)} has {listed(faults)}", "run its bench again")
        return cls(**values)


def _faults(results: ResultSet) -> list[Fault]:
    faults = [] if _NAME.fullmatch(results.name) else [Fault("name", f"is {results.name!r}, must be lower-case letters, digits and _")]
    keys = [column.key for column in results.columns]
    for i, column in enumerate(results.columns):
        if column.target and column.target not in TARGETS:
            faults.append(Fault(f"columns[{i}].target", f"is {column.target!r}, must be one of {', '.join(TARGETS)}"))
        if keys.index(column.key) != i:
            faults.append(Fault(f"columns[{i}].key", f"is {column.key!r} a second time"))
    for i, row in enumerate(results.rows):
        unknown = sorted({*row.texts, *row.numbers, *row.lists, *row.wanted} - set(keys))
        faults += [Fault(f"rows[{i}]", f"has an entry for {key!r}, which is no column") for key in unknown]
        faults += _run_faults(f"rows[{i}]", row.run, results.runs)
    for i, note in enumerate(results.notes):
        faults += _run_faults(f"notes[{i}]", note.run, results.runs)
    for i, run in enumerate(results.runs):
        if run.transcribed != (run.transcribed_from is not None):
            faults.append(Fault(f"runs[{i}].transcribed_from", "must be a commit exactly where transcribed is true"))
    return faults


def _run_faults(path: str, index: int, runs: Sequence[Run]) -> list[Fault]:
    return [] if 0 <= index < len(runs) else [Fault(f"{path}.run", f"is {index}, must be one of the {len(runs)} runs")]


def _compact(value: Any) -> Any:
    """Return a JSON document with integers as such, and without empty entries of rows and columns."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _compact(entry) for key, entry in value.items() if entry not in ({}, "", None)}
    return [_compact(entry) for entry in value] if isinstance(value, (list, tuple)) else value
