"""The strategy "layers": the layout of every layer by the layout program, over sets of devices that are tried."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from hetero_mtf.errors import NothingToSplitError
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.arrangement import PAIRINGS, arrange
from hetero_mtf.planning.layout.manual import filter_stage, single_stage, sized_stage
from hetero_mtf.planning.layout.records import Proof, Stage
from hetero_mtf.planning.layout.stage_from_layouts import trimmed_stage
from hetero_mtf.planning.layout_search.layout_program import LayoutSolution, fits_in_tables, proof_of, solve_layouts, solve_within_memory
from hetero_mtf.planning.layout_search.layout_space import Space, layout_space
from hetero_mtf.planning.layout_search.milp import TIME_LIMIT_S
from hetero_mtf.planning.layout_search.step_objective import LayoutCost
from hetero_mtf.planning.layout_search.two_axes import GridCost, grid_space
from hetero_mtf.planning.memory.shortfall import short_bytes
from hetero_mtf.planning.solvers.apportionment import largest_remainder, proportional
from hetero_mtf.planning.strategies.batch import best_batch
from hetero_mtf.planning.strategies.filters import best_filters
from hetero_mtf.planning.strategies.fitting import fitting
from hetero_mtf.planning.strategies.hybrid import best_hybrid
from hetero_mtf.planning.strategies.ideal import least_step_s
from hetero_mtf.planning.strategies.local_search import improved_on_clocks
from hetero_mtf.planning.strategies.space import best_space
from hetero_mtf.planning.strategies.split_search import Candidate, remembered

ALL_SETS_UP_TO = 4
EVERY_COUNT_UP_TO = 16
AFTER_LOCAL_SEARCH = "then local search on the simulated clocks"
WITHIN_MEMORY_UP_TO = 20_000  # layers * devices, above which the program leaves memory to the choice among its plans
_STEP = 1.5  # from one number of devices to the next, above that


@remembered
def best_layers(costs: Costs) -> Candidate:
    """Return the cheapest plan of one mesh axis that the layout program finds, with the proof of its layouts.

    For a set of devices, every layer's layout and sizes are the exact optimum of J over `layout_space` (`solve_layouts`). Among the
    optima of all sets tried, and what the strategies "equal", "filters", "batch" and "hybrid" and sizes rounded in proportion to speed
    find, the least predicted step is taken, and improved on the clocks (`improved_on_clocks`), so the plan is never predicted slower
    than any of those. It uses two devices at least where one of them does: one device alone is strategy "single".

    Notes
    -----
    Exact in J for each set of devices; heuristic in that J is not the predicted step itself, and in the sets: all sets up to four
    devices; of more the k fastest for each k up to 16, above that for k in steps of a half, and the sets that the other strategies
    chose. A set is skipped if the cheapest states of all layers, without communication, add up to no less than the best J so far. Where
    an optimum does not fit in memory, the program is solved again within it (`solve_within_memory`), among the sizes too of the other
    strategies' plans that fit (`fitting`), in half of the time that is left of 20 s; sets share as much where networks need the
    integer solver.
    """
    known = list(_others(costs))
    fitted = list(_fitted(costs, known))
    known += fitted
    ranks = [_rank(costs, candidate) for candidate in known]
    best, rank = known[ranks.index(min(ranks))], min(ranks)
    least, within_memory = math.inf, dict[tuple[int, ...], tuple[Space, LayoutSolution]]()
    sets, stages, left_s = _sets(costs, known), [candidate.stage for candidate in known], TIME_LIMIT_S
    for devices in sets:
        space = layout_space(costs, devices, stages)
        cost = LayoutCost(costs, space)
        if sum(float(cost.own(index).min()) for index in range(len(costs.graph.layers))) >= least:
            continue
        solution = solve_layouts(cost, TIME_LIMIT_S / len(sets))
        lacking = short_bytes(costs.profile, trimmed_stage(solution.layouts, devices), costs.memory) > 0
        if lacking and len(devices) * len(costs.graph.layers) <= WITHIN_MEMORY_UP_TO:
            left_s /= 2
            within_memory.update(_solved_within_memory(costs, devices, stages, fitted, left_s))
        space, solution = within_memory.get(devices, (space, solution))
        stage = trimmed_stage(solution.layouts, devices)
        proof = proof_of(space, solution, solution.value, devices in within_memory)
        candidate = Candidate(stage, predict(costs, stage), proof)
        candidate_rank = _rank(costs, candidate)
        least = min(least, solution.value) if candidate_rank[0] == 0 else least
        stages.append(stage)
        best, rank = (candidate, candidate_rank) if candidate_rank < rank else (best, rank)
    if best.proof is None and best.stage.devices in within_memory and rank[0] == 0:
        best = _proven_within_memory(costs, best, *within_memory[best.stage.devices])
    return proven(costs, _improved(costs, best, stages))


def _improved(costs: Costs, best: Candidate, stages: Sequence[Stage]) -> Candidate:
    """Return a plan after the local search on the clocks, with its proof that says so if the search changed it."""
    short = short_bytes(costs.profile, best.stage, costs.memory)
    improved = improved_on_clocks(costs, best, stages, lambda stage: short_bytes(costs.profile, stage, costs.memory) <= short)
    if improved is best:
        return best
    proof = proven(costs, improved).proof
    assert proof is not None
    return dataclasses.replace(improved, proof=dataclasses.replace(proof, space=f"{proof.space}; {AFTER_LOCAL_SEARCH}"))


def _solved_within_memory(
    costs: Costs, devices: tuple[int, ...], stages: Sequence[Stage], fitted: Sequence[Candidate], limit_s: float
) -> dict[tuple[int, ...], tuple[Space, LayoutSolution]]:
    """Return the optimum within memory under its set of devices, none where the solver finds none in time."""
    space = layout_space(costs, devices, stages, by_memory=True)
    solution = solve_within_memory(LayoutCost(costs, space), limit_s, [candidate.stage for candidate in fitted])
    return {} if solution is None else {devices: (space, solution)}


def _proven_within_memory(costs: Costs, candidate: Candidate, space: Space, solution: LayoutSolution) -> Candidate:
    """Return a plan with the proof of its layouts within memory, unchanged if it is not in the space."""
    value = LayoutCost(costs, space).of(candidate.stage)
    return dataclasses.replace(candidate, proof=proof_of(space, solution, value, True)) if math.isfinite(value) else candidate


def proven(costs: Costs, candidate: Candidate) -> Candidate:
    """Return a plan with the proof of its layouts on its own devices, unchanged if it has one.

    Parameters
    ----------
    candidate : the plan.

    Notes
    -----
    The bound is the optimum of the layout program on the plan's own mesh, with its own samples and sizes on one of two axes. For a
    network with too many connections for it the bound is that of `least_step_s`, without communication, and the value the predicted step.
    """
    stage = candidate.stage
    if candidate.proof is not None:
        return candidate
    alone = len(stage.axes) == 1
    cost = LayoutCost(costs, layout_space(costs, stage.devices, [stage])) if alone else GridCost(costs, grid_space(costs, [stage]))
    value = cost.of(stage)
    if math.isfinite(value) and fits_in_tables(cost):
        return dataclasses.replace(candidate, proof=proof_of(cost.space, solve_layouts(cost), value))
    step_s, least_s = candidate.prediction.step_s, least_step_s(costs, stage.devices)
    gap = max(0.0, step_s / least_s - 1) if least_s > 0 else 0.0
    space_text = f"any mesh and layouts over the same {len(stage.devices)} devices, bounded as if there were no communication"
    return dataclasses.replace(candidate, proof=Proof("heuristic", max(step_s, least_s), least_s, gap, space_text))


def _rank(costs: Costs, candidate: Candidate) -> tuple[float, bool, float]:
    return short_bytes(costs.profile, candidate.stage, costs.memory), len(candidate.stage.devices) < 2, candidate.prediction.step_s


def _others(costs: Costs) -> Iterator[Candidate]:
    """Yield the plans of other strategies on one axis, and those with sizes rounded in proportion to the devices' speeds."""
    for strategy in (best_filters, best_batch, best_hybrid, best_space):
        try:
            yield strategy(costs)
        except NothingToSplitError:
            continue
    graph, everyone = costs.graph, range(len(costs.profile.cluster.devices))
    speeds = (1 / np.maximum(costs.beside_s, 1e-12)).tolist()
    stages = [filter_stage(graph, [1.0] * len(everyone), "pairs")]
    for rule, pairing in itertools.product((proportional, largest_remainder), PAIRINGS):
        arrangement = arrange(graph, pairing)
        sizes = [rule(segment.units, speeds).sizes for segment in arrangement.segments]
        stages.append(sized_stage(graph, arrangement, sizes, everyone, 0))
    stages += [single_stage(graph, device) for device in everyone] if len(everyone) < 2 else []
    for stage in dict.fromkeys(stages):
        yield Candidate(stage, predict(costs, stage))


def _fitted(costs: Costs, known: Sequence[Candidate]) -> Iterator[Candidate]:
    """Yield the plans of other strategies within memory, where any of those known needs more."""
    if any(short_bytes(costs.profile, candidate.stage, costs.memory) for candidate in known):
        for name, strategy in (("filters", best_filters), ("batch", best_batch), ("hybrid", best_hybrid)):
            try:
                yield fitting(costs, name, strategy(costs))
            except NothingToSplitError:
                continue


def _sets(costs: Costs, known: Sequence[Candidate]) -> list[tuple[int, ...]]:
    """Return the sets of two and more devices to solve the program on, the largest first."""
    by_speed = costs.by_speed
    if len(by_speed) <= ALL_SETS_UP_TO:
        device_sets = [chosen for size in range(2, len(by_speed) + 1) for chosen in itertools.combinations(range(len(by_speed)), size)]
    else:
        device_sets = [tuple(sorted(by_speed[:count])) for count in _counts(len(by_speed))]
    device_sets += [candidate.stage.devices for candidate in known if len(candidate.stage.devices) > 1]
    return sorted(dict.fromkeys(device_sets), key=lambda devices: (-len(devices), devices))


def _counts(devices: int) -> list[int]:
    """Return the numbers of devices that are tried.

    >>> _counts(100)[-6:]
    [16, 24, 36, 54, 81, 100]
    """
    counts = list(range(2, min(devices, EVERY_COUNT_UP_TO) + 1))
    while counts[-1] < devices:
        counts.append(min(devices, int(counts[-1] * _STEP)))
    return counts
