"""The batch split: samples of every device at the exact optimum, over the devices worth using."""

from __future__ import annotations

import itertools

from hetero_mtf.planning.cost import Costs, predict
from hetero_mtf.planning.search import Candidate, Choice, Sizer, descend, device_sets, without_each
from hetero_mtf.planning.sizes import even
from hetero_mtf.planning.typed import batch_stage

_FORMS = ("measured", "even")


def best_batch(costs: Costs, gradient_sync: str = "all_reduce") -> Candidate:
    """Return the cheapest split of the samples.

    For one set of devices the samples minimise max_d T_d(s_d) subject to sum_d s_d = batch size, zero allowed; T_d are the seconds
    of the whole network, forward and backward, at s_d samples. The step adds the all-reduce of all gradients over the set and
    the slowest update of all weights.

    Parameters
    ----------
    costs : Costs of a profile.
    gradient_sync : as in a Plan; where devices do not wait for each other before the update, T_d has it too.

    Notes
    -----
    The samples are exact for this objective (`minimise_maximum`), and up to six devices every set is tried, so the predicted step
    is the least of all batch splits where devices meet once, before the update, and none shares a TensorFlow device. Heuristic
    otherwise: batch norm makes devices meet within a pass, where the sum of the slowest parts counts; over six devices, devices
    are left out one by one while that helps. An even split of the same devices is considered too. O(sets * layers * batch size).
    """
    graph, sizer = costs.graph, Sizer(costs)
    everything = frozenset(range(len(graph.layers)))

    def candidate(choice: Choice) -> Candidate:
        samples = even(costs.profile.batch_size, len(choice.devices)).sizes
        if choice.form == "measured":
            samples = sizer.samples(everything, choice.devices, updates=gradient_sync != "all_reduce")
        stage = batch_stage(graph, samples, choice.devices)
        return Candidate(stage, predict(costs, stage, gradient_sync))

    starts = itertools.product(_FORMS, device_sets(len(costs.profile.cluster.devices)))
    return descend((Choice(*start) for start in starts), candidate, without_each)
