"""The filter split: sizes of every segment at the exact optimum, over the segments and devices worth splitting over."""

from __future__ import annotations

import itertools

from hetero_mtf.planning.cost.step_cost import Costs, predict
from hetero_mtf.planning.layout.arrangement import PAIRINGS, arrange
from hetero_mtf.planning.layout.manual import sized_stage
from hetero_mtf.planning.strategies.search import (
    Candidate,
    Sizer,
    SplitConfiguration,
    descend,
    device_sets,
    distinct_candidates,
    finished,
    tries,
    with_each_replicated,
    without_each,
)


@distinct_candidates
def best_filters(costs: Costs) -> Candidate:
    """Return the cheapest split of the filters that the search finds.

    For one choice of devices, pairing and replicated layers, the sizes of each segment minimise
    max_d sum over its layers of forward + backward + update seconds at u_d units, subject to sum_d u_d = units, zero allowed.

    Parameters
    ----------
    costs : Costs of a profile.

    Notes
    -----
    The sizes of a segment are exact (`minimise_maximum`). The choice around them is heuristic: the best pairing and set of
    devices (all sets up to six devices, else everyone), and from there a descent that keeps a layer whole that would start a
    segment, or leaves out a device, while that lowers the predicted step (`search.descend`). O(layers^2 * devices) once the
    curves are tabulated.
    """
    graph, sizer = costs.graph, Sizer(costs)

    def candidate(choice: SplitConfiguration) -> Candidate:
        arrangement = arrange(graph, choice.form, choice.whole)
        sizes = [sizer.units(segment, arrangement, choice.devices) for segment in arrangement.segments]
        stage = sized_stage(graph, arrangement, sizes, choice.devices, choice.devices[0])
        return Candidate(stage, predict(costs, stage, memory=False))

    def neighbours(choice: SplitConfiguration) -> list[SplitConfiguration]:
        return with_each_replicated(choice, arrange(graph, choice.form, choice.whole).layouts) + without_each(choice)

    starts = itertools.product(PAIRINGS, device_sets(len(costs.profile.cluster.devices)))
    best = descend((SplitConfiguration(*start) for start in starts), candidate, neighbours, tries=tries(graph))
    return finished(costs, best)
