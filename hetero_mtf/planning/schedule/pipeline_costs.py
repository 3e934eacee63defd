"""What a pipeline costs: seconds and bytes of its stages and of the transfers between them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.schedule.clock_table import BACKWARD, FORWARD, Table, kept

Numbers = Sequence[float] | Sequence[Sequence[float]] | np.ndarray


@dataclasses.dataclass(frozen=True)
class PipelineCosts:
    """What the stages of a pipeline and the transfers between them cost.

    Parameters
    ----------
    forward_s, backward_s : (stages,) or (stages, microbatches) seconds of one microbatch; of the slowest device of the stage.
    send_forward_s, send_backward_s : (stages - 1,) or (stages - 1, microbatches) seconds of the transfers from each stage to the
        next and of their gradients back; empty for none.
    update_s : (stages,) seconds of the optimizer after the last microbatch; empty for none.
    fixed_bytes : (stages,) bytes of weights, gradients, slots and temporaries on each device of the stage; empty for none.
    kept_bytes : (stages,) or (stages, microbatches) bytes of what a microbatch in flight keeps for its backward pass, the
        stage's input included; empty for none.
    input_bytes : the same of the stage's input alone, which is all that recomputation keeps; empty for none.
    recompute : the forward pass is done again before the backward pass, instead of keeping what it made, unless the one follows the
        other at once (`clock_table.kept`).
    shared_links : the two directions of a link take turns; otherwise it serves one transfer in each direction at a time.
    rendezvous : a transfer begins only when its reader has come to the task that needs it, as where receives are posted in the order of
        the tasks; otherwise as soon as the tensor is made.
    """

    forward_s: Numbers
    backward_s: Numbers
    send_forward_s: Numbers = ()
    send_backward_s: Numbers = ()
    update_s: Sequence[float] = ()
    fixed_bytes: Sequence[float] = ()
    kept_bytes: Numbers = ()
    input_bytes: Numbers = ()
    recompute: bool = False
    shared_links: bool = False
    rendezvous: bool = False


class CheckedCosts:
    """Costs as lists, one value a stage and microbatch, after checking that they fit the table and the devices."""

    def __init__(self, costs: PipelineCosts, table: Table, devices: Sequence[Sequence[int]]) -> None:
        tasks = list(itertools.chain(*table))
        self.stages = 1 + max((task.stage for task in tasks), default=-1)
        self.microbatches = 1 + max((task.microbatch for task in tasks), default=-1)
        fits = len(devices) == len(costs.forward_s) == self.stages and len(tasks) == 2 * self.stages * self.microbatches
        if not fits or not tasks:
            raise PlanError(
                f"a table of {len(tasks)} tasks, {self.stages} stages and {self.microbatches} microbatches does not fit costs of "
                f"{len(costs.forward_s)} stages and devices of {len(devices)}", "make it by clock_table for the same stages"
            )
        between = self.stages - 1
        forward, backward = self._rows(costs, "forward_s", self.stages), self._rows(costs, "backward_s", self.stages)
        places = itertools.product(range(self.stages), range(self.microbatches))
        self.again = frozenset(places) - kept(tasks, devices) if costs.recompute else frozenset()
        for stage, microbatch in self.again:
            backward[stage][microbatch] += forward[stage][microbatch]
        self.own_s = {FORWARD: forward, BACKWARD: backward}
        sent = self._rows(costs, "send_forward_s", between), self._rows(costs, "send_backward_s", between)
        self.sent_s = dict(zip((FORWARD, BACKWARD), sent))
        self.update_s = [row[0] for row in self._rows(costs, "update_s", self.stages)]
        self.fixed_bytes = [row[0] for row in self._rows(costs, "fixed_bytes", self.stages)]
        self.needed_bytes = self._rows(costs, "kept_bytes", self.stages)
        self.kept_bytes = [list(row) for row in self.needed_bytes]
        inputs = self._rows(costs, "input_bytes", self.stages)
        for stage, microbatch in self.again:
            self.kept_bytes[stage][microbatch] = inputs[stage][microbatch]
        self.shared_links, self.rendezvous = costs.shared_links, costs.rendezvous

    def _rows(self, costs: PipelineCosts, name: str, places: int) -> list[list[float]]:
        given = np.asarray(getattr(costs, name), float)
        if not given.size:
            return [[0.0] * self.microbatches for _ in range(places)]
        if given.shape not in {(places,), (places, self.microbatches)}:
            raise PlanError(
                f"{name} has shape {given.shape} for {places} places and {self.microbatches} microbatches",
                f"give ({places},) or ({places}, {self.microbatches})"
            )
        wrong = given[~(np.isfinite(given) & (given >= 0))]
        if wrong.size:
            raise PlanError(f"{name} holds {wrong[0]}, which is no cost", "give finite values that are not negative")
        rows: list[list[float]] = (given if given.ndim == 2 else np.repeat(given[:, None], self.microbatches, axis=1)).tolist()
        return rows
