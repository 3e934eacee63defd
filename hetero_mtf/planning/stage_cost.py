"""What a stage of several costs: seconds of a microbatch, and of the end of a step."""

from __future__ import annotations

import dataclasses

import numpy as np

from hetero_mtf.planning.clocks import Clocks
from hetero_mtf.planning.layer_cost import Costs
from hetero_mtf.planning.records import Stage


@dataclasses.dataclass(frozen=True)
class StageCost:
    """Seconds of one stage.

    Parameters
    ----------
    forward_s, backward_s : seconds of a microbatch's pass, until the slowest of the stage's processors is done.
    finish_s : seconds after the last microbatch: gradients are added up over the processors that share the batch, and weights updated.
    busy_s : (processors,) seconds that each computes in a step.
    sending_s : (processors,) seconds that each spends in the stage's own collectives in a step.
    """

    forward_s: float
    backward_s: float
    finish_s: float
    busy_s: tuple[float, ...]
    sending_s: tuple[float, ...]

    @property
    def microbatch_s(self) -> float:
        """Seconds of a microbatch, both passes."""
        return self.forward_s + self.backward_s


def stage_cost(costs: Costs, stage: Stage, microbatches: int, recompute: bool = False) -> StageCost:
    """Return what a stage of a pipeline costs, by the rules of `predict`.

    Parameters
    ----------
    costs : Costs of a profile at the batch size of a microbatch.
    stage : Stage; the samples of its layouts sum to a microbatch.
    microbatches : M, how many of them make a step.
    recompute : whether the backward pass computes the stage's activations again.

    Notes
    -----
    Transfers between stages are not in it. The other devices of the hosts are taken to be at work. O(layers * processors).
    """
    clocks = Clocks(costs, stage, beside=True)
    clocks.forward()
    forward_s = float(clocks.now.max())
    if recompute:
        _start_together(clocks)
        clocks.forward()
    _start_together(clocks)
    started_s = forward_s
    clocks.backward()
    backward_s = float(clocks.now.max()) - started_s
    busy, sending = clocks.busy * microbatches, clocks.sending * microbatches
    clocks.busy[:], clocks.sending[:] = 0.0, 0.0
    _start_together(clocks)
    before_s = float(clocks.now.max())
    clocks.add_gradients_up()
    for entry in stage.layouts:
        if costs.graph.owner(entry.layer) == entry.layer:
            clocks.compute(entry, "update")
    finish_s = float(clocks.now.max()) - before_s
    return StageCost(forward_s, backward_s, finish_s, tuple((busy + clocks.busy).tolist()), tuple((sending + clocks.sending).tolist()))


def _start_together(clocks: Clocks) -> None:
    clocks.now[:] = np.max(clocks.now)
