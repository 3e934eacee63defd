"""Benches publish result tables: one JSON file a table, in which a run of some cases replaces only their rows."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import importlib.metadata
import os
import pathlib
import platform
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from hetero_mtf.devices.host import available_cores, cpu_model
from tools.results.records import Column, Machine, Note, ResultSet, Row, Run
from tools.results.tables import table

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
PRIVATE = ("--json", "--results", "--folder")  # options that change no figure
Cell = str | float | Sequence[float] | None


def _no_summary(rows: Sequence[Row]) -> Sequence[str]:
    return ()


@dataclasses.dataclass(frozen=True)
class TableForm:
    """What is fixed about a result table.

    Parameters
    ----------
    name, title, columns : as in `ResultSet`.
    case : keys of the columns that name a case; a run replaces all rows of its cases. Without keys it replaces all rows.
    summarise : returns sentences about all rows.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    case: tuple[str, ...] = ()
    summarise: Callable[[Sequence[Row]], Sequence[str]] = _no_summary


def table_row(cells: Mapping[str, Cell], wanted: Mapping[str, float | None] | None = None) -> Row:
    """Return a row of some entries.

    Parameters
    ----------
    cells : column key -> a text, a number, or several numbers; None is left out.
    wanted : column key -> limit of this row; None is left out.

    Examples
    --------
    >>> table_row({"cluster": "1.0,0.5", "step_ms": 12, "alone_ms": [20.0, 40.0]}).numbers
    {'step_ms': 12.0}
    """
    texts = {key: cell for key, cell in cells.items() if isinstance(cell, str)}
    numbers = {key: float(cell) for key, cell in cells.items() if isinstance(cell, (int, float))}
    lists = {key: tuple(map(float, cell)) for key, cell in cells.items() if isinstance(cell, Sequence) and not isinstance(cell, str)}
    return Row(0, texts, numbers, lists, {key: value for key, value in (wanted or {}).items() if value is not None})


def results_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a bench the option --results: the folder that its tables are written to, None for none."""

    def folder(context: click.Context, parameter: click.Parameter, value: str) -> pathlib.Path | None:
        return None if value == "-" else pathlib.Path(value)

    text = "Folder of the result tables; - writes none.  [default: docs/results of the clone]"
    return click.option("--results", metavar="FOLDER", default=str(RESULTS), show_default=False, callback=folder, help=text)(command)


def publish(folder: pathlib.Path | None, form: TableForm, rows: Sequence[Row], notes: Sequence[str] = ()) -> None:
    """Write the rows of this run to the table's JSON file; rows of other cases that are in it stay.

    Parameters
    ----------
    folder : where the file is or is to be; None writes nothing.
    form : of the table.
    rows, notes : measured by this run.
    """
    if folder is None or not rows:
        return
    path = folder / f"{form.name}.json"
    fresh = ResultSet(form.name, form.title, form.columns, tuple(rows), (this_run(),), (), tuple(Note(text) for text in notes))
    folder.mkdir(parents=True, exist_ok=True)
    merged(ResultSet.load(path) if path.exists() else None, fresh, form).save(path)
    click.echo(f"wrote {os.path.relpath(path)}", err=True)


def shown(form: TableForm, rows: Sequence[Row], notes: Sequence[str] = ()) -> str:
    """Return the table of this run for the terminal, with its summary and notes.

    Parameters
    ----------
    form, rows, notes : as for `publish`.
    """
    return "\n".join([table(form.columns, rows), *(["", *form.summarise(rows), *notes] if rows else [])]).rstrip()


def merged(before: ResultSet | None, fresh: ResultSet, form: TableForm) -> ResultSet:
    """Return the results with the cases of a run replaced.

    A case's new rows stand where its old ones stood; new cases come last. A note stays as long as an earlier row of its run does, or if it
    never had one, so a bench that publishes all its rows again replaces its notes; a run stays as long as a row or a note does.

    Parameters
    ----------
    before : earlier results; None if there are none.
    fresh : the run's rows and notes, its run being the only one.
    form : of the table.
    """
    if before is None:
        return dataclasses.replace(fresh, summary=tuple(form.summarise(fresh.rows)))
    case = functools.partial(_case, keys=form.case)
    new_cases, placed, kept = {case(entry) for entry in fresh.rows}, list[Row](), set[int]()
    number = next((i for i, run in enumerate(before.runs) if (run,) == fresh.runs), len(before.runs))  # a bench may publish row by row
    added = [dataclasses.replace(entry, run=number) for entry in fresh.rows]
    for entry in (_known(entry, form.columns) for entry in before.rows):
        if case(entry) not in new_cases:
            placed.append(entry)
            kept.add(entry.run)
            continue
        placed += [new for new in added if case(new) == case(entry)]
        added = [new for new in added if case(new) != case(entry)]
    rows = [*placed, *added]
    had_rows = {entry.run for entry in before.rows}
    notes = [note for note in before.notes if note.run in kept or note.run not in had_rows]
    notes += [dataclasses.replace(note, run=number) for note in fresh.notes]
    used = sorted({entry.run for entry in rows} | {note.run for note in notes})
    rows = [dataclasses.replace(entry, run=used.index(entry.run)) for entry in rows]
    notes = [dataclasses.replace(note, run=used.index(note.run)) for note in notes]
    runs = [*before.runs, *fresh.runs]
    return dataclasses.replace(
        fresh, rows=tuple(rows), runs=tuple(runs[i] for i in used), summary=tuple(form.summarise(rows)), notes=tuple(notes)
    )


def this_run() -> Run:
    """Return the present command, day, commit and machine."""
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    return Run(command_text(sys.argv), today, this_machine(), present_commit())


def this_machine() -> Machine:
    """Return the present machine."""
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    model = cpu_model(cpuinfo.read_text()) if cpuinfo.exists() else ""
    try:
        version = importlib.metadata.version("tensorflow")
    except importlib.metadata.PackageNotFoundError:
        version = None
    return Machine(model or platform.machine(), len(available_cores()), version)


def present_commit() -> str | None:
    """Return the commit of the clone, with "-dirty" where anything but documents was changed; None outside of a clone."""
    try:
        commit, changes = (_git(*words) for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "--", ".", ":!docs", ":!*.md")))
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("-dirty" if changes else "")


def command_text(arguments: Sequence[str]) -> str:
    """Return a process's arguments as one would type them in a clone, without options that only name files for output.

    Examples
    --------
    >>> command_text([str(ROOT / "tools" / "bench" / "genetic.py"), "--instances", "9", "--json", "x.json", "--results=y"])
    'python -m tools.bench.genetic --instances 9'
    """
    words, rest = [], list(arguments[1:])
    while rest:
        word = rest.pop(0)
        if word in PRIVATE:
            del rest[:1]
        elif word.partition("=")[0] not in PRIVATE:
            words.append(_without_place(word))
    typed = [word if word.startswith("~") else shlex.quote(word) for word in words]
    return " ".join(["python", *_program(pathlib.Path(arguments[0])), *typed])


def _program(path: pathlib.Path) -> list[str]:
    """Return the words that run a file: its module where it is one of the clone, else its name."""
    if not path.is_relative_to(ROOT):
        return [shlex.quote(path.name)]
    return ["-m", ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")]


def _without_place(word: str) -> str:
    """Return a word of a command without the folders of this machine: of a path outside of the home folder the last two names."""
    home = os.path.expanduser("~")
    if len(home) > 1 and word.startswith(f"{home}/"):
        return f"~{word[len(home) :]}"
    path = pathlib.PurePosixPath(word)
    return "/".join(("...", *path.parts[-2:])) if path.is_absolute() else word


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def _case(entry: Row, keys: Sequence[str]) -> tuple[object, ...]:
    return tuple(entry.texts.get(key, entry.numbers.get(key)) for key in keys)


def _known(entry: Row, columns: Sequence[Column]) -> Row:
    """Return a row without entries of columns that the table no longer has."""
    keys = {column.key for column in columns}
    names = ("texts", "numbers", "lists", "wanted")
    return dataclasses.replace(entry, **{name: {k: v for k, v in getattr(entry, name).items() if k in keys} for name in names})
