"""The hybrid split: samples up to the dense layers, hidden units in them."""

from __future__ import annotations

import dataclasses
from typing import Any

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.arrangement import BORDERS, Arrangement, arrange
from hetero_mtf.planning.layout.records import Stage
from hetero_mtf.planning.strategies.split_search import (
    Candidate,
    Sizer,
    SplitConfiguration,
    SplitSearch,
    remembered,
    without_each,
)


@remembered
def best_hybrid(costs: Costs, gradient_sync: str = "all_reduce") -> Candidate:
    """Return the cheapest hybrid split that the search finds.

    For one choice of devices, border and layouts, the samples minimise the seconds of the slowest device in the layers that split the
    batch, forward and backward; the sizes of each dense segment minimise them as in `best_filters`.

    Parameters
    ----------
    costs : Costs of a profile.
    gradient_sync : as in a Plan.

    Raises
    ------
    NothingToSplitError
        If the network has no dense layer behind its convolutions.

    Notes
    -----
    Samples and sizes are exact (`minimise_maximum`), each for its own part of the network. The search around them is heuristic
    (`descend`): the best border and set of devices (all sets up to six devices, else all devices), and from there a descent
    that keeps a dense layer replicated, lets it split the batch, or leaves out a device, while that lowers the predicted step. At
    least one dense layer stays split by channels.

    References
    ----------
    Jin, Qamar, Zheng, Ahmad, J. Intelligent & Fuzzy Systems 35 (2018) 5449-5466; Krizhevsky, arXiv 1404.5997. Unequal shares, the
    choice of border and of what to split are this project's.
    """
    graph, sizer = costs.graph, Sizer(costs)

    def arranged(choice: SplitConfiguration) -> Arrangement:
        return arrange(graph, "pairs", choice.replicated, choice.form, choice.batched)

    def stage(choice: SplitConfiguration) -> Stage:
        return sizer.stage(arranged(choice), choice.devices)

    def neighbours(choice: SplitConfiguration) -> list[SplitConfiguration]:
        changed = without_each(choice)
        for index, layout in enumerate(arranged(choice).layouts):
            if layout in ("column", "row"):
                changed.append(dataclasses.replace(choice, replicated=frozenset({index})))
                changed.append(dataclasses.replace(choice, batched=frozenset({index})))
        return changed

    options: dict[str, Any] = {"allowed": lambda choice: bool(arranged(choice).segments), "gradient_sync": gradient_sync}
    return SplitSearch(BORDERS, stage, neighbours, **options).best(costs)
