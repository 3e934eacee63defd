"""PlanHistory: which plans a training was taken under, from which step on, so that it can be repeated bit for bit."""

from __future__ import annotations

import dataclasses
import math
import os
from typing import Any

from hetero_mtf.errors import PlanError
from hetero_mtf.json_file import read_json, write_json
from hetero_mtf.planning.plan.plan import Plan

KIND, VERSION = "plan_history", 1


@dataclasses.dataclass(frozen=True)
class PlanSpan:
    """A plan in force.

    Parameters
    ----------
    step : number of steps taken before its first one.
    plan : the plan.
    step_s : median seconds of a step under it; None where they were not measured. Spans are equal whatever it is.
    """

    step: int
    plan: Plan
    step_s: float | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True)
class PlanHistory:
    """The plans of a training.

    Parameters
    ----------
    spans : in the order of their steps, at least one.
    steps : number of steps taken in all; None where that is not known. Histories are equal whatever it is.

    Raises
    ------
    PlanError
        If there is none, or their steps do not increase.
    """

    spans: tuple[PlanSpan, ...]
    steps: int | None = dataclasses.field(default=None, compare=False)

    def __post_init__(self) -> None:
        steps = [span.step for span in self.spans]
        if not steps or steps[0] < 0 or any(after <= before for before, after in zip(steps, steps[1:])):
            raise PlanError(f"the plans of a training begin at the steps {steps}", "record it again: steps increase, from 0 or more")

    def at(self, step: int) -> Plan:
        """Return the plan in force at a step; before the first span that of the first.

        Parameters
        ----------
        step : number of steps taken.
        """
        return next((span.plan for span in reversed(self.spans) if span.step <= step), self.spans[0].plan)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plans to a JSON file; an existing file is replaced at once.

        Parameters
        ----------
        path : path of the file to write or replace.
        """
        steps = {} if self.steps is None else {"steps": self.steps}
        write_json(path, {"kind": KIND, "version": VERSION, **steps, "spans": self.to_json()})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PlanHistory:
        """Return the plans in a file written by `save`.

        Parameters
        ----------
        path : path of the file.

        Raises
        ------
        HeteroError
            If the file cannot be read, is of another kind, or has faults.
        """
        source = os.fspath(path)
        document = read_json(path, kind=KIND, version=VERSION)
        spans, steps = document.get("spans"), document.get("steps")
        if not isinstance(spans, list) or set(document) - {"kind", "version", "spans", "steps"}:
            raise PlanError(f"{source} has no list of spans", "record the training again")
        if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or steps < 0):
            raise PlanError(f"{source}: steps is {steps!r}, must be a whole number from 0", "record the training again")
        return dataclasses.replace(cls.from_json(spans, f"{source}: "), steps=steps)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the spans as JSON objects, in their order."""
        return [
            {"step": span.step, "plan": span.plan.to_json(), **({} if span.step_s is None else {"step_s": span.step_s})}
            for span in self.spans
        ]

    @classmethod
    def from_json(cls, spans: list[Any], source: str = "") -> PlanHistory:
        """Return the plans in a list that `to_json` returned.

        Parameters
        ----------
        spans : the list.
        source : what messages say before the name of an entry.

        Raises
        ------
        HeteroError
            If it has faults.
        """
        return cls(tuple(_span(entry, f"{source}spans[{at}]") for at, entry in enumerate(spans)))


def _span(entry: Any, source: str) -> PlanSpan:
    if not isinstance(entry, dict) or set(entry) - {"step_s"} != {"step", "plan"} or not isinstance(entry["plan"], dict):
        raise PlanError(f"{source} is no plan with the step that it begins at", "record the training again")
    step, step_s = entry["step"], entry.get("step_s")
    if isinstance(step, bool) or not isinstance(step, int):
        raise PlanError(f"{source}.step is {step!r}, must be a whole number", "record the training again")
    if step_s is not None and (isinstance(step_s, bool) or not isinstance(step_s, (int, float)) or not 0 < step_s < math.inf):
        raise PlanError(f"{source}.step_s is {step_s!r}, must be seconds above 0", "record the training again")
    return PlanSpan(step, Plan.from_json(entry["plan"], f"{source}.plan"), step_s)
