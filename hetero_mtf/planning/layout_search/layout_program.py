"""The layout program: the layout and sizes of every layer that minimise the predicted seconds of a step.

Each layer l takes one state s_l, a layout with its sizes or samples, of a finite set S_l (`layout_space.layout_space`). With R(l) the
readers of l, the program is

    min_s  J(s) = sum_l own_l(s_l) + sum_l sent_l(s_l, (s_r for r in R(l)))    subject to  s_l in S_l for all l

where own_l are the seconds of the layer itself and sent_l those of resharding its output and its gradient between its own layout and
the layouts that its readers need, infinite where the states are not compatible. Within memory, with k_p(s) bytes that a stage with these
states takes of pool p and f_p bytes free,

    subject to  k_p(s) <= f_p for all p.

Neighbours of equal sizes need no resharding, so the optimum merges them into segments. `solve_layouts` defines own_l and sent_l.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.records import LayerLayout, Proof, Stage
from hetero_mtf.planning.layout.stage_from_layouts import full_stage, trimmed_stage
from hetero_mtf.planning.layout_search.layout_space import Space
from hetero_mtf.planning.layout_search.memory import LayoutMemory
from hetero_mtf.planning.layout_search.milp import TIME_LIMIT_S, MilpSolution, solve_milp
from hetero_mtf.planning.layout_search.prices import solve_priced
from hetero_mtf.planning.layout_search.step_objective import LayoutCost
from hetero_mtf.planning.memory.shortfall import pool_bytes
from hetero_mtf.planning.memory.worker_memory import worker_bytes
from hetero_mtf.planning.solvers.elimination import elimination_order, minimise_sum

ROUNDS = 6  # of solving with other bytes reserved, each in half of the remaining time
WITHIN_GAP = 1e-2  # gap that is enough within memory
MILP_UP_TO = 100  # layers; above, the integer program has no solution in time where the search over prices has none
LARGEST_TABLE = 2_000_000  # entries; above, HiGHS solves the program


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


def solve_layouts(cost: LayoutCost, time_limit_s: float = TIME_LIMIT_S) -> LayoutSolution:
    """Return the states of all layers that minimise J.

    own_l is the sum of

    - the seconds of the layer's passes and update in its state, on one device: for sizes of a segment with this layer, the device
      that is slowest in that segment; for samples, the one that is slowest between two batch norms; else the one that is slowest in
      the layer itself; a layer that splits its batch updates all its weights, on the slowest device;
    - an all-reduce of a row's output, and of the scores of attention that is split by channels and of their gradients;
    - for a layer that splits its batch, an all-reduce of its gradients at the seconds a byte of one all-reduce of all gradients of the
      network, without the part that computing hides (`Link.hidden`), and for batch norm the gathering and summing of its statistics;
    - for an optimizer that updates full variables, the gathering of a split layer's weights and of their gradients.

    sent_l is the sum of

    - the reshardings of its output to the layouts that its readers need, one for all readers of equal need, and the reverse for its
      gradient if it needs one; an output that leaves the network is gathered;
    - one all-reduce of the gradient that columns return to it, for all columns of equal need.

    J differs from the clocks of `predict` where no collective comes between layers whose slowest devices differ: `predict` takes the
    largest of sums where J takes the sum of the largest, and J charges a segment at one device. J leaves out the launch overhead,
    which no layout changes. The other terms are the same.

    Parameters
    ----------
    cost : J over a space, the states of each layer from `layout_space`.
    time_limit_s : seconds after which the integer solver returns its best solution so far.

    Notes
    -----
    Exact, by variable elimination (`minimise_sum`) over one factor a layer and one for each layer with all its readers: a dynamic
    program where the network is a chain, O(layers * states^(width + 1)). Networks too entangled for tables of two million entries go
    to HiGHS (`solve_milp`), which may not end in time; the gap is stated then.
    """
    space = cost.space
    if not fits_in_tables(cost):
        return _solution(cost, solve_milp(cost, None, time_limit_s))
    optimum = minimise_sum([len(states) for states in space.states], cost.factors())
    layouts = space.layouts(cost.graph, [states[at] for states, at in zip(space.states, optimum.choice)])
    return LayoutSolution(layouts, optimum.value, optimum.value, 0.0, "optimal")


def solve_within_memory(cost: LayoutCost, time_limit_s: float, known: Iterable[Stage] = ()) -> LayoutSolution | None:
    """Return the states of all layers that minimise J where devices have little memory; None if there is no solution in time.

    Parameters
    ----------
    cost : J over a space.
    time_limit_s : seconds after which the best solution so far is returned.
    known : stages that fit, from other searches.

    Notes
    -----
    First by prices (`solve_priced`) where the network is not too entangled for tables; what they find counts if it is within a
    hundredth of their bound, which holds for all plans that use these devices. Else the integer program has the second half of the
    time (`solve_milp`), unless there are more than a hundred layers and prices found nothing; the better of both counts, with its own
    bound: that of the integer program holds for plans which leave the bytes that it reserves (`_within_by_milp`). Heuristic, with a bound;
    the time limit is its cost.
    """
    costs, space = cost.costs, cost.space
    reserved = beside_bytes(costs, space)
    memory = LayoutMemory(costs, space, reserved)
    if memory.never_fits or not fits_in_tables(cost):
        return None if memory.never_fits else _within_by_milp(cost, reserved, time_limit_s)
    end_s = time.monotonic() + time_limit_s
    starts = [choice for stage in known if (choice := cost.choice_of(stage)) is not None]
    priced = solve_priced(cost, memory, lambda choice: _short(cost, memory, choice, reserved), time_limit_s / 2, starts)
    if np.isinf(priced.bound):
        return None
    by_prices = _solution(cost, MilpSolution(priced.choice, priced.bound, "time limit")) if priced.choice else None
    if by_prices is not None and by_prices.gap <= WITHIN_GAP:
        return dataclasses.replace(by_prices, status="optimal")
    if by_prices is None and len(space.states) > MILP_UP_TO:
        return None
    by_milp = _within_by_milp(cost, reserved, max(0.0, end_s - time.monotonic()))
    return by_milp if by_prices is None or (by_milp is not None and by_milp.value <= by_prices.value) else by_prices


def beside_bytes(costs: Costs, space: Space) -> dict[str, float]:
    """Return pool -> the least bytes that processes on all devices of a space take beside tensors."""
    stage = full_stage(space.layouts(costs.graph, [states[0] for states in space.states]), space.devices)
    nothing, least_by_pool = np.zeros(len(space.devices)), dict[str, float]()
    for device, least in zip(space.devices, worker_bytes(costs.profile, stage, nothing, nothing, nothing).tolist()):
        pool = costs.profile.cluster.devices[device].pool
        least_by_pool[pool] = least_by_pool.get(pool, 0.0) + least
    return least_by_pool


def _within_by_milp(cost: LayoutCost, least: dict[str, float], time_limit_s: float) -> LayoutSolution | None:
    """Return the solution of the integer program within memory; None if it has none in time.

    Its memory rows add up what layers keep and the largest temporaries. What a stage needs besides (`stage_memory_bytes`) does not
    add up over layers, so it is reserved: the least there is; then as much as the plan found last, which did not fit, needs besides;
    half of the way back where nothing fits then; six times at most. The optimum, to a hundredth, is that of the plans which leave
    this reserve.
    """
    costs, space = cost.costs, cost.space
    low = reserved = least
    high: dict[str, float] | None = None
    for round_ in range(ROUNDS):
        memory = LayoutMemory(costs, space, reserved)
        optimum = solve_milp(cost, memory, time_limit_s / 2 ** (round_ + 1), WITHIN_GAP)
        if not optimum.choice:
            if reserved is least:
                return None
            high = reserved
        else:
            needed = _needed(cost, optimum.choice)
            if (_short(cost, memory, optimum.choice, reserved) <= 0).all():
                return _solution(cost, optimum)
            low = reserved
            reserved = {p.name: max(low.get(p.name, 0.0), needed.get(p.name, 0) - memory.needed(optimum.choice, p)) for p in memory.pools}
        if high is not None:
            reserved = {name: (low.get(name, 0.0) + most) / 2 for name, most in high.items()}
    return None


def _needed(cost: LayoutCost, choice: Sequence[int]) -> dict[str, int]:
    """Return the bytes that a choice of states needs, by pool."""
    layouts = cost.space.layouts(cost.graph, [states[at] for states, at in zip(cost.space.states, choice)])
    return pool_bytes(cost.costs.profile, trimmed_stage(layouts, cost.space.devices), cost.costs.memory)


def _short(cost: LayoutCost, memory: LayoutMemory, choice: Sequence[int], reserved: Mapping[str, float]) -> np.ndarray:
    """Return the (pools,) part of what is free by which a choice of states needs more."""
    needed = _needed(cost, choice)
    free = [pool.free + reserved.get(pool.name, 0.0) for pool in memory.pools]
    return np.array([needed.get(pool.name, 0) / most - 1 for pool, most in zip(memory.pools, free)])


def proof_of(space: Space, solution: LayoutSolution, value: float, within: bool = False) -> Proof:
    """Return the proof for a plan by the optimum of its space.

    Parameters
    ----------
    solution : its optimum.
    value : J of the plan, seconds.
    within : whether the optimum is within memory.
    """
    gap = max(0.0, value / solution.bound - 1) if solution.bound > 0 else 0.0
    status = "heuristic" if value > solution.value * (1 + 1e-9) else solution.status
    states, vectors = space.size
    grid = f"{space.rows} rows of samples by {len(space.devices) // max(1, space.rows)} columns of filters"
    mesh = f"{grid if space.rows else 'one mesh axis'} over the same {len(space.devices)} devices"
    where = f"{mesh}, {len(space.states)} layers of up to {states} layouts and sizes each"
    tight = ", within the memory that is free" if within else ""
    return Proof(status, value, solution.bound, gap, f"{where}, {vectors} size vectors, equal sizes across merges and Adds{tight}")


def _solution(cost: LayoutCost, optimum: MilpSolution) -> LayoutSolution:
    """Return the solution of the integer program; all layers replicated where it has none in time."""
    choice = optimum.choice or (0,) * len(cost.space.states)
    value = cost.total(choice)
    bound = min(value, optimum.bound)
    states = [states[at] for states, at in zip(cost.space.states, choice)]
    return LayoutSolution(cost.space.layouts(cost.graph, states), value, bound, value / bound - 1 if bound > 0 else 0.0, optimum.status)


def fits_in_tables(cost: LayoutCost) -> bool:
    """Return whether variable elimination needs no table of more than two million entries."""
    return elimination_order([len(states) for states in cost.space.states], cost.scopes())[1] <= LARGEST_TABLE
