"""PlansSoFar: the plans of a run, from moves and what was before them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from hetero_mtf.planning.exploration.plan_history import PlanHistory, PlanSpan
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.training.control.move import Move


@dataclasses.dataclass(frozen=True)
class PlansSoFar:
    """The plans before one was put in force from without, as by `replan` or `restore`.

    Parameters
    ----------
    spans : the plans before.
    step : number of the batch that the one after them began at.
    moves : number of moves until then.
    """

    spans: tuple[PlanSpan, ...] = ()
    step: int = 0
    moves: int = 0

    def history(self, moves: Sequence[Move], plan: Plan) -> PlanHistory:
        """Return all plans, each with the batch that it began at.

        Parameters
        ----------
        moves : all moves of the run.
        plan : the plan in force.
        """
        own = moves[self.moves :]
        starts, plans = [self.step, *(move.step for move in own)], [*(move.before for move in own), plan]
        spans = list(self.spans)
        for step, each, step_s in zip(starts, plans, [*(move.before_s for move in own), math.inf]):
            while spans and spans[-1].step >= step:  # from before an earlier step was gone back to
                spans.pop()
            goes_on = bool(spans) and spans[-1].plan.built_from == each.built_from  # after a state was restored
            last = spans.pop() if goes_on else PlanSpan(step, each)
            spans.append(PlanSpan(last.step, last.plan, step_s if 0 < step_s < math.inf else last.step_s))
        return PlanHistory(tuple(spans))
