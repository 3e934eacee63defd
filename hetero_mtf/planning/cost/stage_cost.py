"""Seconds of a stage of a pipeline: of a microbatch, and of the end of a step."""

from __future__ import annotations

import dataclasses

from hetero_mtf.planning.cost.clocks import Clocks
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.records import Stage


@dataclasses.dataclass(frozen=True)
class Spent:
    """Seconds of the processors of a stage in a part of a step.

    Parameters
    ----------
    seconds : until the slowest of them ends.
    compute_s : (processors,) seconds of compute.
    communication_s : (processors,) seconds in the stage's own collectives.
    """

    seconds: float
    compute_s: tuple[float, ...]
    communication_s: tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class StageCost:
    """Seconds of one stage of a pipeline.

    Parameters
    ----------
    forward, backward : of one microbatch.
    finish : after the last microbatch: gradients are added up over the processors that share the batch, and weights updated.
    """

    forward: Spent
    backward: Spent
    finish: Spent

    @property
    def microbatch_s(self) -> float:
        """Seconds of a microbatch, both passes."""
        return self.forward.seconds + self.backward.seconds


def stage_cost(costs: Costs, stage: Stage, beside: bool = True) -> StageCost:
    """Return the seconds of a stage of a pipeline, by the rules of `predict`.

    Parameters
    ----------
    costs : Costs of a profile at the batch size of a microbatch.
    stage : Stage; the samples of its layouts sum to a microbatch.
    beside : whether the other devices of the hosts compute at the same time.

    Notes
    -----
    Transfers between stages are not included. O(layers * processors).
    """
    clocks = Clocks(costs, stage, beside=beside, hides=False)
    forward, backward, finish = (_spent(clocks) for step_pass in clocks.passes() if step_pass != "gradients")
    return StageCost(forward, backward, finish)


def _spent(clocks: Clocks) -> Spent:
    """Return the seconds on the clocks and reset them to 0."""
    spent = Spent(float(clocks.now.max()), tuple(clocks.compute_s.tolist()), tuple(clocks.communication_s.tolist()))
    for each in (clocks.now, clocks.compute_s, clocks.communication_s):
        each[:] = 0.0
    return spent
