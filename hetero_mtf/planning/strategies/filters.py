"""The filter split: over devices and segments chosen by a search, exact sizes of every segment."""

from __future__ import annotations

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.arrangement import PAIRINGS, Arrangement, arrange
from hetero_mtf.planning.layout.records import Stage
from hetero_mtf.planning.strategies.split_search import (
    Candidate,
    Sizer,
    SplitConfiguration,
    SplitSearch,
    remembered,
    with_each_replicated,
    without_each,
)


@remembered
def best_filters(costs: Costs) -> Candidate:
    """Return the cheapest split of the filters that the search finds.

    For one choice of devices, pairing and replicated layers, the sizes of each segment minimise
    max_d sum over its layers of forward + backward + update seconds at u_d units, subject to sum_d u_d = units, zero allowed.

    Notes
    -----
    The sizes of a segment are exact (`minimise_maximum`). The search around them is heuristic (`descend`): the best pairing and
    set of devices (all sets up to six devices, else all devices), and from there a descent that keeps a layer replicated that would
    start a segment, or leaves out a device, while that lowers the predicted step. O(layers^2 * devices) once the curves are tabulated.
    """
    graph, sizer = costs.graph, Sizer(costs)

    def arranged(choice: SplitConfiguration) -> Arrangement:
        return arrange(graph, choice.form, choice.replicated)

    def stage(choice: SplitConfiguration) -> Stage:
        return sizer.stage(arranged(choice), choice.devices)

    def neighbours(choice: SplitConfiguration) -> list[SplitConfiguration]:
        return with_each_replicated(choice, arranged(choice).layouts) + without_each(choice)

    return SplitSearch(PAIRINGS, stage, neighbours).best(costs)
