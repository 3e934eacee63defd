"""Likeness of plans: how much of two plans is split the same way, in whatever parts, so that they err alike."""

from __future__ import annotations

from collections.abc import Mapping

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.plan.plan import Plan


def likeness(graph: LayerGraph, plan: Plan, other: Plan) -> float:
    """Return the part of a network's operations, from 0 to 1, in layers that two plans split the same way on the same devices.

    Parameters
    ----------
    graph : the network.
    plan, other : plans for it on one cluster.
    """
    own, others = _splits(plan), _splits(other)
    operations = [layer.flops + 1 for layer in graph.layers]  # one of those without any counts a little
    alike = sum(operations[layer] for layer, split in own.items() if others.get(layer) == split)
    return alike / sum(operations[layer] for layer in own)


def _splits(plan: Plan) -> Mapping[int, object]:
    """Return how each layer is split, by its index."""
    return {
        layer: (stage.devices, entry.layout, entry.axis, entry.batch_axis, plan.execution)
        for stage in plan.stages
        for layer, entry in zip(stage.layers, stage.layouts, strict=True)
    }
