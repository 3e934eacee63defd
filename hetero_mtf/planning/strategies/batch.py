"""The batch split: over devices chosen by a search, the exact optimum of each device's samples."""

from __future__ import annotations

import itertools

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.manual import batch_stage
from hetero_mtf.planning.layout.records import Stage
from hetero_mtf.planning.solvers.apportionment import equal_sizes
from hetero_mtf.planning.strategies.split_search import (
    Candidate,
    Sizer,
    SplitConfiguration,
    SplitSearch,
    remembered,
    timed,
    without_each,
)

_FORMS = ("measured", "equal")
MOVED_UP_TO = 8  # devices; among more, single samples matter less and moves are many


@remembered
def best_batch(costs: Costs, gradient_sync: str = "all_reduce") -> Candidate:
    """Return the cheapest split of the samples.

    For one set of devices the samples minimise max_d T_d(s_d) subject to sum_d s_d = batch size, zero allowed; T_d are the seconds
    of the network, forward and backward, at s_d samples. The step adds the all-reduce of all gradients over the set and
    the slowest update of all weights. From there samples move from device to device while the predicted step gets shorter.

    Parameters
    ----------
    gradient_sync : as in a Plan; where devices do not wait for each other before the update, T_d has it too.

    Notes
    -----
    The samples are exact for this objective (`minimise_maximum`), and up to six devices every set is tried, so the predicted step
    is the least of all batch splits where devices meet once, before the update, and none shares a TensorFlow device. Heuristic
    otherwise: batch norm makes devices meet within a pass, where the sum of the slowest parts counts, so the moves of single
    samples end where no move helps; over six devices, devices are left out one by one while that helps. An equal split over the
    same devices is considered too. Single samples move among at most eight devices. O(sets * layers * (batch size + moves * devices^2)).
    """
    graph, sizer = costs.graph, Sizer(costs)
    everything = frozenset(range(len(graph.layers)))

    def stage(choice: SplitConfiguration) -> Stage:
        samples = equal_sizes(costs.profile.batch_size, len(choice.devices)).sizes
        if choice.form == "measured":
            samples = sizer.samples(everything, choice.devices, updates=gradient_sync != "all_reduce")
        return batch_stage(graph, samples, choice.devices)

    def local_search(best: Candidate) -> Candidate:
        return _moved(costs, best, gradient_sync)

    return SplitSearch(_FORMS, stage, without_each, local_search=local_search, gradient_sync=gradient_sync).best(costs)


def _moved(costs: Costs, best: Candidate, gradient_sync: str) -> Candidate:
    """Return the split with samples moved one at a time, each time the move that shortens the predicted step most, until none does.

    A device keeps at least one sample: the descent has already chosen the devices.
    """
    while 1 < len(best.stage.devices) <= MOVED_UP_TO:
        samples = best.stage.layouts[0].samples
        pairs = [(giver, taker) for giver, taker in itertools.permutations(range(len(samples)), 2) if samples[giver] > 1]
        neighbours = [timed(costs, _with_move(costs.graph, best.stage, giver, taker), gradient_sync) for giver, taker in pairs]
        shorter = min(neighbours, key=lambda c: c.prediction.step_s, default=best)
        if shorter.prediction.step_s >= best.prediction.step_s * (1 - 1e-9):
            break
        best = shorter
    return best


def _with_move(graph: LayerGraph, stage: Stage, giver: int, taker: int) -> Stage:
    """Return the split with one sample moved from one place of the mesh to another."""
    samples = list(stage.layouts[0].samples)
    samples[giver] -= 1
    samples[taker] += 1
    return batch_stage(graph, samples, stage.devices)
