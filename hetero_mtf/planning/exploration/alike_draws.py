"""Random draws: which plans draw the same numbers, so that one may take the place of the other."""

from __future__ import annotations

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.layout.arrangement import draws_at_random
from hetero_mtf.planning.plan.plan import Plan


def draws_alike(graph: LayerGraph, plan: Plan, present: Plan) -> bool:
    """Return whether a plan has the random draws of another one: in a network that draws none, or with as many microbatches.

    Parameters
    ----------
    graph : the network.
    plan, present : the plans.
    """
    return plan.microbatches == present.microbatches or not any(map(draws_at_random, graph.layers))
