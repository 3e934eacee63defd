"""The part of a stage's work that overlaps with work of other devices on its hosts, and the seconds of the stage with it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hetero_mtf.planning.cost.step_cost import Spent, StageCost
from hetero_mtf.planning.schedule.simulator import Entry


def overlaps(tasks: Sequence[Entry], hosts: Sequence[frozenset[str]]) -> np.ndarray:
    """Return the (stages,) part of each stage's seconds in which another stage with a host in common works too; 1 for a stage of 0 s.

    Parameters
    ----------
    tasks : time line of a step.
    hosts : (stages,) hosts of each stage's devices.

    Notes
    -----
    Time is divided where a task starts or ends. O(tasks * stages).

    Examples
    --------
    >>> tasks = [Entry(0, 0, "forward", 0.0, 2.0), Entry(1, 0, "forward", 1.0, 5.0)]
    >>> overlaps(tasks, [frozenset("a"), frozenset("a")])
    array([0.5 , 0.25])
    """
    edges = np.unique([edge for task in tasks for edge in (task.start_s, task.end_s)])
    at_work = np.zeros((len(hosts), max(len(edges) - 1, 0)), bool)
    for task in tasks:
        at_work[task.stage, np.searchsorted(edges, task.start_s) : np.searchsorted(edges, task.end_s)] = True
    near = np.array([[a != b and bool(here & there) for b, there in enumerate(hosts)] for a, here in enumerate(hosts)])
    beside = (near.astype(int) @ at_work.astype(int)) > 0
    widths = np.diff(edges)
    own_s, both_s = (at_work * widths).sum(axis=1), (at_work * beside * widths).sum(axis=1)
    return np.where(own_s > 0, both_s / np.where(own_s > 0, own_s, 1.0), 1.0)


def blended(beside: StageCost, alone: StageCost, part: float) -> StageCost:
    """Return the cost of a stage that does part of its work beside others and the rest alone: alone + part * (beside - alone).

    Parameters
    ----------
    beside, alone : its cost if all of its work is done so.
    part : the part beside others, from 0 to 1.
    """

    def mixed(name: str) -> Spent:
        here, there = getattr(beside, name), getattr(alone, name)
        return Spent(
            _between(here.seconds, there.seconds, part),
            *(
                tuple(_between(a, b, part) for a, b in zip(getattr(here, field), getattr(there, field)))
                for field in ("compute_s", "communication_s")
            ),
        )

    return StageCost(mixed("forward"), mixed("backward"), mixed("finish"))


def _between(beside: float, alone: float, part: float) -> float:
    return alone + part * (beside - alone)
