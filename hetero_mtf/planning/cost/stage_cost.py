"""What a stage of several costs: seconds of a microbatch, and of the end of a step."""

from __future__ import annotations

import dataclasses

import numpy as np

from hetero_mtf.planning.cost.clocks import Clocks
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.records import Stage


@dataclasses.dataclass(frozen=True)
class Spent:
    """What the processors of a stage do in a part of a step.

    Parameters
    ----------
    seconds : until the slowest of them is done.
    compute_s : (processors,) seconds that each computes.
    communication_s : (processors,) seconds that each spends in the stage's own collectives.
    """

    seconds: float
    compute_s: tuple[float, ...]
    communication_s: tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class StageCost:
    """What one stage of a pipeline costs.

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
    """Return what a stage of a pipeline costs, by the rules of `predict`.

    Parameters
    ----------
    costs : Costs of a profile at the batch size of a microbatch.
    stage : Stage; the samples of its layouts sum to a microbatch.
    beside : whether the other devices of the hosts are at work meanwhile.

    Notes
    -----
    Transfers between stages are not in it. O(layers * processors).
    """
    clocks = Clocks(costs, stage, beside=beside)
    clocks.forward()
    forward = _spent(clocks)
    clocks.backward()
    backward = _spent(clocks)
    clocks.add_gradients_up()
    for entry in stage.layouts:
        if costs.graph.owner(entry.layer) == entry.layer:
            clocks.compute(entry, "update")
    return StageCost(forward, backward, _spent(clocks))


def _spent(clocks: Clocks) -> Spent:
    """Return what the clocks' processors did, and set all clocks to the start."""
    spent = Spent(float(clocks.now.max()), tuple(clocks.compute_s.tolist()), tuple(clocks.communication_s.tolist()))
    for each in (clocks.now, clocks.compute_s, clocks.communication_s):
        each[:] = np.zeros(len(each))
    return spent
