"""Where a bench writes: tables for the terminal and the pages, and all its figures in a JSON file that a later run goes on from."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pathlib
import platform
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from tools.results.publication import TableForm, command_text, publish, results_option, shown
from tools.results.records import Row

Command = Callable[..., Any]
Option = Callable[[Command], Command]  # what gives a command an option


@dataclasses.dataclass(frozen=True)
class Output:
    """Where a run writes.

    Parameters
    ----------
    results : folder of the result tables; None for none.
    path : JSON file of all figures; None for none.
    resumes : whether the cases that are in that file stay.
    """

    results: pathlib.Path | None
    path: str | None = None
    resumes: bool = False

    def publish(self, form: TableForm, rows: Sequence[Row], notes: Sequence[str] = ()) -> None:
        """Write rows to the result tables; arguments as for `publication.publish`."""
        publish(self.results, form, rows, notes)

    def report(self, form: TableForm, rows: Sequence[Row], notes: Sequence[str] = ()) -> None:
        """Print the table of some rows and write them to the result tables; arguments as for `publication.publish`."""
        click.echo(shown(form, rows, notes))
        self.publish(form, rows, notes)

    def record(self, document: Mapping[str, Any]) -> None:
        """Write figures with the command and machine that made them to the JSON file in one piece, if there is one."""
        if self.path:
            machine = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
            partial = pathlib.Path(f"{self.path}.part")
            partial.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps({"command": command_text(sys.argv), "machine": machine, **document}, indent=1) + "\n")
            partial.replace(self.path)

    def earlier_cases(self) -> list[dict[str, Any]]:
        """Return the cases that an earlier run left in the JSON file, if this one goes on from them."""
        if not self.resumes or self.path is None or not pathlib.Path(self.path).exists():
            return []
        cases: list[dict[str, Any]] = json.loads(pathlib.Path(self.path).read_text())["cases"]
        return cases


class Cases:
    """The cases of a run: each is measured once and recorded at once, and those of an earlier run are not measured again.

    Parameters
    ----------
    output : where they are recorded, as "cases".
    all_earlier : whether every case of an earlier run counts as one of this run, instead of those that this run asks for.
    further : cases -> what else is recorded.

    Attributes
    ----------
    done : in the order in which they were measured.
    """

    def __init__(
        self, output: Output, all_earlier: bool = True, further: Callable[[list[dict[str, Any]]], Mapping[str, Any]] = lambda cases: {}
    ) -> None:
        self._output, self._further = output, further
        self._earlier = output.earlier_cases()
        self.done = list(self._earlier) if all_earlier else []

    def find(self, **key: Any) -> dict[str, Any] | None:
        """Return the case with some entries, None where neither this run nor an earlier one has it."""
        case = next((case for case in [*self.done, *self._earlier] if all(case.get(name) == value for name, value in key.items())), None)
        if case is not None and case not in self.done:
            self.add(case)
        return case

    def measure(self, title: str, measure: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """Return a case that is measured now, with the seconds that took as case_s; say so on the standard error output.

        Parameters
        ----------
        title : what the case is called there.
        measure : returns its figures, which JSON can hold; with the entry "failure" where there are none.
        """
        start_s = time.perf_counter()
        case = dict(measure())
        case["case_s"] = time.perf_counter() - start_s
        self.add(case)
        click.echo(f"{title}: {case.get('failure', 'measured')}, {case['case_s']:.0f} s", err=True)
        return case

    def add(self, case: dict[str, Any]) -> None:
        """Take a case that was measured elsewhere, and record all."""
        self.done.append(case)
        self.record()

    def record(self) -> None:
        """Record all cases, after a change of one of them."""
        self._output.record({"cases": self.done, **self._further(self.done)})


def tables_option(command: Command) -> Command:
    """Give a bench the option --results, and its function an `Output` as the argument `output`."""
    return _with_output(command, [results_option])


def output_options(after: str = "", resumes: bool = False) -> Option:
    """Return what gives a bench the options --json and --results, and its function an `Output` as the argument `output`.

    Parameters
    ----------
    after : after each of what all figures are written, such as "network"; "" for the end of the run.
    resumes : whether there is the option --resume.
    """
    options = [click.option("--json", "path", metavar="FILE", help=f"File to write all figures to{after and f', after each {after}'}.")]
    if resumes:
        options.append(click.option("--resume", is_flag=True, help="Go on from the cases that are in the file of --json."))
    return functools.partial(_with_output, options=[*options, results_option])


def together(*options: Option) -> Option:
    """Return what gives a command several options, in this order."""
    return lambda command: functools.reduce(lambda decorated, option: option(decorated), reversed(options), command)


def _with_output(command: Command, options: Sequence[Option]) -> Command:
    @functools.wraps(command)
    def with_output(results: pathlib.Path | None, path: str | None = None, resume: bool = False, **others: Any) -> Any:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what a bench has opened is closed then too
        return command(output=Output(results, path, resume), **others)

    return together(*options)(with_output)
