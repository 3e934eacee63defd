"""The space split: over devices chosen by a search, slabs of one spatial dimension by measured speed and free memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from hetero_mtf.errors import NothingToSplitError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.records import LayerLayout, Stage
from hetero_mtf.planning.layout.slabs import slab_dimension, slab_layouts
from hetero_mtf.planning.layout.stage_from_layouts import trimmed_stage
from hetero_mtf.planning.memory.shortfall import shortfalls
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.solvers.apportionment import equal_sizes, minimise_maximum
from hetero_mtf.planning.strategies.split_search import Candidate, SplitConfiguration, SplitSearch, remembered, timed, without_each

_FORMS = ("measured", "equal")
MOVED_UP_TO = 8  # devices; among more, single positions matter less and moves are many
ROUNDS = 24  # of slabs made thinner on devices that lack memory


@remembered
def best_space(costs: Costs) -> Candidate:
    """Return the cheapest split of one spatial dimension into slabs.

    For one set of devices the positions of the input minimise max_d T_d(n_d) subject to sum_d n_d = extent, zero allowed; T_d are the
    seconds of all layers, forward and backward, with slabs in that proportion. Where a pool lacks memory, n_d is bounded on its
    devices, tighter in each round, until the plan fits. The step adds halo exchanges, joint statistics and the all-reduce of the
    gradients. From there positions move from device to device while the predicted step gets shorter.

    Raises
    ------
    NothingToSplitError
        If no layer was measured in slabs, or none can lie in them.

    Notes
    -----
    The positions are exact for this objective (`minimise_maximum`). Heuristic otherwise, as is the choice of devices: all sets up to six
    devices, else devices are left out one by one. Single positions move among at most eight devices. O(sets * (layers * extent + rounds
    * layers + moves * devices^2 * layers)).
    """
    graph = costs.graph
    along, extent = _measured_dimension(costs)
    tables = costs.slab_rows(extent)

    def stage(choice: SplitConfiguration) -> Stage:
        if choice.form == "equal":
            return slab_stage(graph, equal_sizes(extent, len(choice.devices)).sizes, along, choice.devices)
        return _fitting_stage(costs, tables[list(choice.devices)], along, choice.devices)

    return SplitSearch(_FORMS, stage, without_each, local_search=lambda best: _moved(costs, best, along)).best(costs)


def slab_stage(graph: LayerGraph, sizes: Sequence[int], along: int, devices: Sequence[int]) -> Stage:
    """Return the stage whose input lies in slabs of given sizes; a device without any is left out.

    Parameters
    ----------
    sizes : (devices,) positions of the longest input.
    along : number of the spatial dimension.
    devices : indices in the cluster.
    """
    return trimmed_stage(slab_layouts(graph, sizes, along), devices)


def measured_in_slabs(profile: Profile) -> bool:
    """Return whether layers were measured as slabs, which calibration does for small batches.

    Parameters
    ----------
    profile : Profile.
    """
    return any(curve.dimension == "space" for curve in profile.curves)


def _measured_dimension(costs: Costs) -> tuple[int, int]:
    """Return the spatial dimension that is cut, and its extent in the input."""
    if not measured_in_slabs(costs.profile):
        raise NothingToSplitError("no layer was measured in slabs of space, as samples can be split", "use strategy batch")
    along = slab_dimension(costs.graph)
    inputs = [costs.graph.layers[index].output_shape for index in costs.graph.inputs]
    return along, max(shape[along] for shape in inputs if len(shape) > along + 1)


def _fitting_stage(costs: Costs, tables: np.ndarray, along: int, devices: Sequence[int]) -> Stage:
    """Return the stage with the fastest slabs that fit into memory; where none do, the last that was tried."""
    extent = tables.shape[1] - 1
    most = [extent] * len(devices)
    stage = slab_stage(costs.graph, minimise_maximum(tables, extent).sizes, along, devices)
    for _ in range(ROUNDS):
        lacking = {short.pool: short for short in shortfalls(costs.profile, stage, costs.memory)}
        if not lacking:
            break
        present = dict(zip(stage.devices, _input_slabs(costs.graph, stage)))
        for at, device in enumerate(devices):
            short = lacking.get(costs.profile.cluster.devices[device].pool)
            if short is not None and device in present:
                part = short.free_bytes / short.needed_bytes
                most[at] = min(most[at] - 1, max(math.floor(present[device] * (0.5 + 0.5 * part)), 0))
        if sum(most) < extent:
            break
        stage = slab_stage(costs.graph, minimise_maximum(tables, extent, upper=most).sizes, along, devices)
    return stage


def _input_slabs(graph: LayerGraph, stage: Stage) -> tuple[int, ...]:
    """Return the positions of the longest input on each device of a stage; all of them where it is not cut."""
    cut: list[LayerLayout] = [entry for entry in stage.layouts if entry.slabs and entry.layer in graph.inputs]
    if not cut:
        return (max(shape[0] for shape in (graph.layers[index].output_shape for index in graph.inputs)),) * len(stage.devices)
    return max(cut, key=lambda entry: sum(entry.slabs)).slabs


def _moved(costs: Costs, best: Candidate, along: int) -> Candidate:
    """Return the split with positions moved between devices, each time the move that shortens the predicted step most.

    A device keeps at least one position, and no move makes memory lack that did not before.
    """
    fits = not shortfalls(costs.profile, best.stage, costs.memory)
    while 1 < len(best.stage.devices) <= MOVED_UP_TO:
        slabs = _input_slabs(costs.graph, best.stage)
        pairs = [(giver, taker) for giver, taker in itertools.permutations(range(len(slabs)), 2)]
        stages = [
            _with_move(costs.graph, best.stage, slabs, (giver, taker, count), along)
            for giver, taker in pairs
            for count in (1, 2, 4)
            if slabs[giver] > count
        ]
        neighbours = [timed(costs, stage) for stage in stages if not (fits and shortfalls(costs.profile, stage, costs.memory))]
        shorter = min(neighbours, key=lambda c: c.prediction.step_s, default=best)
        if shorter.prediction.step_s >= best.prediction.step_s * (1 - 1e-9):
            break
        best = shorter
    return best


def _with_move(graph: LayerGraph, stage: Stage, slabs: Sequence[int], move: tuple[int, int, int], along: int) -> Stage:
    """Return the split with some positions moved from one place of the mesh to another."""
    sizes, (giver, taker, count) = list(slabs), move
    sizes[giver] -= count
    sizes[taker] += count
    return slab_stage(graph, sizes, along, stage.devices)
