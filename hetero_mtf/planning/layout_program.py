"""The layout program: a layout and sizes for every layer, so that neighbours that match are merged, by exact optimisation."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hetero_mtf.planning.elimination import elimination_order, minimise_sum
from hetero_mtf.planning.layer_cost import Costs
from hetero_mtf.planning.layout_cost import LayoutCost
from hetero_mtf.planning.layout_space import entry_of
from hetero_mtf.planning.records import AXIS, LayerLayout, Stage

LARGEST_TABLE = 2_000_000  # entries, above which the program goes to the integer solver


@dataclasses.dataclass(frozen=True)
class LayoutSolution:
    """The layouts of every layer.

    Parameters
    ----------
    layouts : (layers,) layout and sizes or samples of each layer.
    value : J of these layouts, seconds.
    bound : a lower bound of J over the whole space, seconds.
    gap : value / bound - 1; 0 where the layouts are proven best.
    status : "optimal" or "time limit".
    """

    layouts: tuple[LayerLayout, ...]
    value: float
    bound: float
    gap: float
    status: str


def solve_layouts(cost: LayoutCost) -> LayoutSolution:
    """Return the states of all layers that minimise J.

    J is the sum, over all layers, of

    - the seconds of its passes and update in its state, on one device: for sizes found for a segment with this layer, the device
      that is slowest in that segment; for samples, the one that is slowest between two batch norms; else the one that is slowest in
      the layer itself; a layer that splits its batch updates all its weights, on the slowest device;
    - the moves of its output to how its readers want it, one for all that want it alike, and the same way back for its gradient
      where anything before it trains; an output is gathered when it leaves the network;
    - an all-reduce of a row's output, and one of the gradient that columns return to one input;
    - for a layer that splits its batch, an all-reduce of its gradients at the seconds a byte that all gradients of the network
      take in one piece, and for batch norm the gathering and summing of its statistics.

    It differs from the clocks of `predict` where devices do not meet between layers whose slowest devices differ: `predict` takes
    the largest of sums where J takes the sum of the largest, and J knows the slowest device of a segment only as a whole. The other
    terms are the same.

    Parameters
    ----------
    cost : J over a space, the states of each layer from `layout_space`.

    Notes
    -----
    Exact, by variable elimination (`minimise_sum`) over one factor a layer and one for each layer with all its readers: a dynamic
    program where the network is a chain. O(layers * states^(width + 1)).
    """
    space = cost.space
    found = minimise_sum([len(states) for states in space.states], cost.factors())
    layouts = laid_out(cost.costs, [states[at] for states, at in zip(space.states, found.choice)])
    return LayoutSolution(layouts, found.value, found.value, 0.0, "optimal")


def laid_out(costs: Costs, states: Sequence[tuple[str, tuple[int, ...]]]) -> tuple[LayerLayout, ...]:
    """Return the layouts of states, one a layer."""
    return tuple(entry_of(index, layer.name, state) for index, (layer, state) in enumerate(zip(costs.graph.layers, states)))


def stage_of(layouts: Sequence[LayerLayout], devices: Sequence[int]) -> Stage:
    """Return the stage with given layouts, without the devices that have a part of none.

    Parameters
    ----------
    layouts : (layers,) layouts on one axis over `devices`.
    devices : indices in the cluster.

    Notes
    -----
    Where one device remains, or nothing is split, every layer is replicated on one device: the first that has a part, or the first.
    """
    used = [at for at in range(len(devices)) if any((entry.sizes or entry.samples or (0,) * len(devices))[at] for entry in layouts)]
    layers = tuple(range(len(layouts)))
    if len(used) < 2:
        alone = devices[used[0] if used else 0]
        return Stage(layers, (alone,), ((AXIS, 1),), tuple(LayerLayout(e.layer, e.name, "replicated") for e in layouts))
    kept = tuple(
        dataclasses.replace(e, sizes=tuple(e.sizes[at] for at in used if e.sizes), samples=tuple(e.samples[at] for at in used if e.samples))
        for e in layouts
    )
    return Stage(layers, tuple(devices[at] for at in used), ((AXIS, len(used)),), kept)


def fits_in_tables(cost: LayoutCost) -> bool:
    """Return whether variable elimination needs no table of more than two million entries."""
    return elimination_order([len(states) for states in cost.space.states], cost.scopes())[1] <= LARGEST_TABLE
