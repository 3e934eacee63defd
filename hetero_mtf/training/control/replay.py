"""Replay: takes the steps of a trainer under the plans of an earlier training, each from the same step on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from hetero_mtf.planning.exploration.plan_history import PlanHistory
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.program.engine import Finished
from hetero_mtf.training.control.move import Move
from hetero_mtf.training.control.plan_in_force import PlanInForce
from hetero_mtf.training.control.step_call import StepCall


class Replay:
    """Repeats the moves of a training.

    Parameters
    ----------
    history : the plans of that training.
    clock : gives seconds.

    Attributes
    ----------
    moves : the moves so far.
    """

    def __init__(self, history: PlanHistory, clock: Callable[[], float] = time.perf_counter) -> None:
        self._history, self._clock = history, clock
        self.moves: list[Move] = []
        self.steps_ahead: Callable[[], int | None] = lambda: None
        self.speaks = True

    def fits(self, plan: Plan) -> bool:
        """Return whether the history goes on under a plan that was given meanwhile: it does not."""
        return False

    def note_build(self, seconds: float) -> None:
        """Take note of what building took, which decides nothing here."""

    def advance(self, in_force: PlanInForce, call: StepCall) -> Sequence[Finished]:
        """Take a step under the plan of the history, and return what it gives.

        Parameters
        ----------
        in_force : the plan in force; another is put there at a move.
        call : the step.

        Raises
        ------
        HeteroError
            As `Engine.advance`.
        """
        plan, before = self._history.at(call.step), in_force.plan
        if plan.built_from != before.built_from:
            start_s = self._clock()
            in_force.replace(plan)
            self.moves.append(Move(call.step, "it is repeated", before, plan, 0.0, 0.0, self._clock() - start_s))
        return call.advance(in_force.engine)

    def close(self) -> None:
        """Free nothing: each move has closed the engine before."""
