"""Moves at steps that a test chooses, by the controller's own means."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from unittest import mock

from hetero_mtf.planning.exploration.actions import Action, BuildPlan, MoveTo, TakeStep
from hetero_mtf.planning.exploration.records import Knowledge
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.training.control import controller
from hetero_mtf.training.control.background import Background, Finished


@contextlib.contextmanager
def moves_at(plans: Mapping[int, Plan]) -> Iterator[None]:
    """Let every controller move to plans before steps, without regard to seconds, whatever the machine's load.

    Parameters
    ----------
    plans : number of steps taken, at least 1 -> plan.
    """
    poll = Background.poll

    def scripted(known: Knowledge) -> Action:
        plan = plans.get(known.taken)
        if plan is not None and plan.built_from != known.trial.plan.built_from and plan.built_from not in known.refused:
            return MoveTo(plan)
        coming = plans.get(known.taken + 1)
        if coming is None or known.busy or known.built is not None or coming.built_from in known.refused:
            return TakeStep()
        return BuildPlan(coming)

    def waiting(self: Background, wait: bool = False) -> Finished | None:
        return poll(self, True)

    with mock.patch.object(controller, "next_action", scripted), mock.patch.object(Background, "poll", waiting):
        yield
