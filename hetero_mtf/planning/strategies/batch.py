"""The batch split: samples of every device at the exact optimum, over the devices worth using."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hetero_mtf.planning.cost.step_cost import Costs, predict
from hetero_mtf.planning.layout.manual import batch_stage
from hetero_mtf.planning.layout.records import Stage
from hetero_mtf.planning.solvers.apportionment import equal_sizes
from hetero_mtf.planning.strategies.search import (
    Candidate,
    Sizer,
    SplitConfiguration,
    descend,
    device_sets,
    distinct_candidates,
    finished,
    tries,
    without_each,
)

_FORMS = ("measured", "equal")
MOVED_UP_TO = 8  # devices; among more, single samples matter less and moves are many


@distinct_candidates
def best_batch(costs: Costs, gradient_sync: str = "all_reduce") -> Candidate:
    """Return the cheapest split of the samples.

    For one set of devices the samples minimise max_d T_d(s_d) subject to sum_d s_d = batch size, zero allowed; T_d are the seconds
    of the whole network, forward and backward, at s_d samples. The step adds the all-reduce of all gradients over the set and
    the slowest update of all weights. From there samples move from device to device while the whole predicted step gets shorter.

    Parameters
    ----------
    costs : Costs of a profile.
    gradient_sync : as in a Plan; where devices do not wait for each other before the update, T_d has it too.

    Notes
    -----
    The samples are exact for this objective (`minimise_maximum`), and up to six devices every set is tried, so the predicted step
    is the least of all batch splits where devices meet once, before the update, and none shares a TensorFlow device. Heuristic
    otherwise: batch norm makes devices meet within a pass, where the sum of the slowest parts counts, so the moves of single
    samples end where no move helps; over six devices, devices are left out one by one while that helps. An even split of the
    same devices is considered too. Single samples move among at most eight devices. O(sets * layers * (batch size + moves * devices^2)).
    """
    graph, sizer = costs.graph, Sizer(costs)
    everything = frozenset(range(len(graph.layers)))

    def candidate(choice: SplitConfiguration) -> Candidate:
        samples = equal_sizes(costs.profile.batch_size, len(choice.devices)).sizes
        if choice.form == "measured":
            samples = sizer.samples(everything, choice.devices, updates=gradient_sync != "all_reduce")
        stage = batch_stage(graph, samples, choice.devices)
        return Candidate(stage, predict(costs, stage, gradient_sync, memory=False))

    starts = itertools.product(_FORMS, device_sets(len(costs.profile.cluster.devices)))
    best = descend((SplitConfiguration(*start) for start in starts), candidate, without_each, tries=tries(graph))
    return finished(costs, _moved(costs, best, gradient_sync), gradient_sync)


def _moved(costs: Costs, best: Candidate, gradient_sync: str) -> Candidate:
    """Return the split with samples moved one at a time, each time the move that shortens the predicted step most, until none does.

    A device keeps one sample at least: which devices to leave out was decided before.
    """
    while 1 < len(best.stage.devices) <= MOVED_UP_TO:
        samples = best.stage.layouts[0].samples
        ends = [(giver, taker) for giver, taker in itertools.permutations(range(len(samples)), 2) if samples[giver] > 1]
        found = [_with_move(costs, best.stage, samples, gradient_sync, giver, taker) for giver, taker in ends]
        shorter = min(found, key=lambda c: c.prediction.step_s, default=best)
        if shorter.prediction.step_s >= best.prediction.step_s * (1 - 1e-9):
            break
        best = shorter
    return best


def _with_move(costs: Costs, stage: Stage, samples: Sequence[int], gradient_sync: str, giver: int, taker: int) -> Candidate:
    """Return the split with one sample moved."""
    moved = list(samples)
    moved[giver] -= 1
    moved[taker] += 1
    other = batch_stage(costs.graph, moved, stage.devices)
    return Candidate(other, predict(costs, other, gradient_sync, memory=False))
