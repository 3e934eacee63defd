"""The hybrid split: samples up to the dense layers, hidden units in them."""

from __future__ import annotations

import dataclasses
import itertools

from hetero_mtf.planning.cost.step_cost import Costs, predict
from hetero_mtf.planning.layout.arrangement import BORDERS, Arrangement, arrange
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
    without_each,
)


@distinct_candidates
def best_hybrid(costs: Costs) -> Candidate:
    """Return the cheapest hybrid that the search finds.

    For one choice of devices, border and layouts, the samples minimise the seconds of the slowest device in the layers that split the
    batch, forward and backward; the sizes of each dense segment minimise them as in `best_filters`.

    Parameters
    ----------
    costs : Costs of a profile.

    Raises
    ------
    NothingToSplitError
        If the network has no dense layer behind its convolutions.

    Notes
    -----
    Samples and sizes are exact (`minimise_maximum`), each for its own part of the network. The choice around them is heuristic:
    the best border and set of devices (all sets up to six devices, else everyone), and from there a descent that keeps a dense
    layer whole, lets it split the batch, or leaves out a device, while that lowers the predicted step (`search.descend`). At
    least one dense layer stays split by channels.

    References
    ----------
    Jin, Qamar, Zheng, Ahmad, J. Intelligent & Fuzzy Systems 35 (2018) 5449-5466; Krizhevsky, arXiv 1404.5997. Unequal shares, the
    choice of border and of what to split are this project's.
    """
    graph, sizer = costs.graph, Sizer(costs)

    def arranged(choice: SplitConfiguration) -> Arrangement:
        return arrange(graph, whole=choice.whole, border=choice.form, batched=choice.batched)

    def candidate(choice: SplitConfiguration) -> Candidate:
        arrangement = arranged(choice)
        sizes = [sizer.units(segment, arrangement, choice.devices) for segment in arrangement.segments]
        trunk = frozenset(index for index, layout in enumerate(arrangement.layouts) if layout == "batch")
        stage = sized_stage(graph, arrangement, sizes, choice.devices, choice.devices[0], sizer.samples(trunk, choice.devices))
        return Candidate(stage, predict(costs, stage, memory=False))

    def neighbours(choice: SplitConfiguration) -> list[SplitConfiguration]:
        found = without_each(choice)
        for index, layout in enumerate(arranged(choice).layouts):
            if layout in ("column", "row"):
                found.append(dataclasses.replace(choice, whole=frozenset({index})))
                found.append(dataclasses.replace(choice, batched=frozenset({index})))
        return found

    starts = itertools.product(BORDERS, device_sets(len(costs.profile.cluster.devices)))
    found = (SplitConfiguration(*start) for start in starts)
    best = descend(found, candidate, neighbours, lambda choice: bool(arranged(choice).segments), tries(graph))
    return finished(costs, best)
