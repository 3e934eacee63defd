"""StartTrace: what a training that tried plans as its steps did and what each thing took, as a small JSON file."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pathlib
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from hetero_mtf.errors import DataError
from hetero_mtf.json_file import read_json

KIND, VERSION = "start_trace", 1
FOLDER = pathlib.Path(__file__).parent / "traces"
COUNTED, SETTLING, OVERLAPPED, TRACED, WATCHED = STATES = ("counted", "settling", "overlapped", "traced", "watched")
"""A step that counts; one that does not, as the plan is new; one with a build or a solution beside it; one that is traced; one after all
trials."""


@dataclasses.dataclass(frozen=True)
class TracedPlan:
    """A plan that was solved for or tried.

    Parameters
    ----------
    strategy : its strategy.
    devices : the devices that it uses.
    size : as `records.size_of` it.
    rough_s : seconds of a step by the rough profile.
    predicted_s : seconds that were predicted before its first step; None where it was not tried.
    """

    strategy: str
    devices: tuple[int, ...]
    size: int
    rough_s: float
    predicted_s: float | None = None


@dataclasses.dataclass(frozen=True)
class StepRun:
    """Steps one after another under one plan, all in one state.

    Parameters
    ----------
    plan : index of the plan.
    state : one of `STATES`.
    beside : what ran beside them, "build" or "solve"; "" for nothing.
    seconds : of each step.
    """

    plan: int
    state: str
    beside: str
    seconds: tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class Event:
    """What happened between two steps.

    Parameters
    ----------
    step : number of steps taken before.
    name : "solve" or "build" at a begin, "solved", "built" or "refused" at an end, "move", "watch".
    plan : index of the plan that it is about; None where it is about none.
    seconds : what ended work took, or a move; None elsewhere.
    solution : of "solved": {"candidates": [[plan, predicted_s, error], ...], "error": ..., "floor": ...}; None elsewhere.
    """

    step: int
    name: str
    plan: int | None = None
    seconds: float | None = None
    solution: dict[str, Any] | None = None


@dataclasses.dataclass(frozen=True)
class StartTrace:
    """A training that tried plans.

    Parameters
    ----------
    network, shares : what was trained, a key of `compared_task`, and on which emulated devices.
    steps : number of steps.
    floor : of `Knowledge` at the beginning.
    first_build : [size, seconds] of the first plan, its first step included.
    plans : those that were solved for or tried; the first is the one that training began with.
    runs : all steps in their order.
    events : in their order.
    layers : [plan, device, layer, pass, split, traced seconds / those by the rough profile] of each traced layer, of the median trace.
    first_step_s, end_s : seconds from the start of the process to the end of the first step, and to the end of the training.
    """

    network: str
    shares: tuple[float, ...]
    steps: int
    floor: float
    first_build: tuple[int, float]
    plans: tuple[TracedPlan, ...]
    runs: tuple[StepRun, ...]
    events: tuple[Event, ...]
    layers: tuple[tuple[int, int, int, str, str, float], ...]
    first_step_s: float
    end_s: float

    @property
    def trained_s(self) -> float:
        """Seconds from the end of the first step to the end."""
        return self.end_s - self.first_step_s

    @property
    def other_s(self) -> float:
        """Seconds a step, after the first, that are neither in steps nor in moves: Keras's loop, and writing weights back."""
        moves_s = sum(event.seconds or 0.0 for event in self.events if event.name == "move")
        return max(0.0, self.trained_s - sum(list(self.seconds())[1:]) - moves_s) / max(1, self.steps - 1)

    def seconds(self) -> Iterator[float]:
        """Yield the seconds of each step."""
        for run in self.runs:
            yield from run.seconds

    def median_s(self, plan: int) -> float:
        """Return the median seconds of the steps under a plan that nothing lengthened; infinite without one.

        Parameters
        ----------
        plan : index of the plan.
        """
        quiet = [second for run in self.runs if run.plan == plan and run.state in (COUNTED, WATCHED) for second in run.seconds]
        return statistics.median(quiet) if quiet else math.inf

    def ratios(self, state: Sequence[str], beside: str = "") -> list[list[float]]:
        """Return the steps of some states, each run as ratios to the median of its plan.

        Parameters
        ----------
        state : some of `STATES`.
        beside : what ran beside them.
        """
        medians = [self.median_s(at) for at in range(len(self.plans))]
        runs = (run for run in self.runs if run.state in state and run.beside == beside and math.isfinite(medians[run.plan]))
        return [[seconds / medians[run.plan] for seconds in run.seconds] for run in runs]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to a JSON file.

        Parameters
        ----------
        path : file to write or replace.
        """
        document = _rounded(dataclasses.asdict(self))
        for run in document["runs"]:
            run["ms"] = [round(1e3 * each, 1) for each in run.pop("seconds")]
        document["events"] = [{key: value for key, value in event.items() if value is not None} for event in document["events"]]
        entries = {"kind": KIND, "version": VERSION, **document}.items()
        lines = (f"{json.dumps(key)}: {_lines(value)}" for key, value in entries)
        pathlib.Path(path).write_text("{" + ",\n".join(lines) + "}\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> StartTrace:
        """Return the trace in a file written by `save`.

        Parameters
        ----------
        path : path of the file.

        Raises
        ------
        DataError
            If it is none.
        """
        document = read_json(path, kind=KIND, version=VERSION)
        try:
            plans = tuple(TracedPlan(**{**each, "devices": tuple(each["devices"])}) for each in document["plans"])
            runs = tuple(StepRun(r["plan"], r["state"], r["beside"], tuple(ms / 1e3 for ms in r["ms"])) for r in document["runs"])
            events = tuple(Event(**each) for each in document["events"])
            fields = {name: document[name] for name in ("network", "steps", "floor", "first_step_s", "end_s")}
            layers = tuple(tuple(each) for each in document["layers"])
            first = tuple(document["first_build"])
            return cls(**fields, shares=tuple(document["shares"]), first_build=first, plans=plans, runs=runs, events=events, layers=layers)
        except (KeyError, TypeError) as fault:
            raise DataError(f"{os.fspath(path)} is no trace of a training ({fault!r})", "record it again") from None


def load_all(folder: pathlib.Path = FOLDER) -> list[StartTrace]:
    """Return the traces in a folder, in order of their names.

    Parameters
    ----------
    folder : the folder; by default that of the traces that are published.
    """
    return [StartTrace.load(path) for path in sorted(folder.glob("*.json"))]


def _lines(value: Any) -> str:
    """Return JSON with a line for each entry of a list."""
    separated = ",\n ".join(json.dumps(each) for each in value) if isinstance(value, list) else json.dumps(value)
    return f"[{separated}]" if isinstance(value, list) else separated


def _rounded(value: Any) -> Any:
    """Return a JSON value with numbers of five digits."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, (list, tuple)) else value
