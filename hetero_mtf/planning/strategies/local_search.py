"""Local search on the clocks of `predict`, from the layouts that an additive objective chose."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.records import LayerLayout, Stage
from hetero_mtf.planning.layout.stage_from_layouts import full_stage, trimmed_stage
from hetero_mtf.planning.layout_search.layout_space import layout_space
from hetero_mtf.planning.layout_search.step_objective import LayoutCost
from hetero_mtf.planning.strategies.split_search import Candidate, timed, tries, with_full_prediction

_LEAST_GAIN = 1e-6  # of a step


def improved_on_clocks(costs: Costs, best: Candidate, known: Sequence[Stage], fits: Callable[[Stage], bool]) -> Candidate:
    """Return a plan of one mesh axis that is predicted faster than a given one, or that one.

    The additive objective J of the layout program cannot say that the slowest devices of two layers differ, or that sums of gradients
    are hidden behind what follows them: this search moves on the clocks themselves, each time to the neighbour with the least predicted
    step, until none is shorter. A neighbour has the layouts of another stage before or behind some layer, or one sample moved.

    Parameters
    ----------
    costs : Costs of the profile.
    best : the plan to begin at.
    known : stages whose layouts are considered, from other searches; those on other devices are left out.
    fits : whether a stage is allowed: that it fits in memory.

    Notes
    -----
    At most `split_search.tries` predictions, O(layers) each.
    """
    if len(best.stage.axes) != 1 or len(best.stage.devices) < 2:
        return best
    others = [stage for stage in dict.fromkeys(known) if stage.devices == best.stage.devices and len(stage.axes) == 1]
    cost = LayoutCost(costs, layout_space(costs, best.stage.devices, [best.stage, *others]))
    left, current = tries(costs.graph), best
    while left > 0:
        stages = itertools.chain(_with_samples_moved(current.stage), _crossed(cost, current.stage, others, left))
        stages_in_budget = [stage for stage in dict.fromkeys(itertools.islice(stages, left)) if fits(stage)]
        left -= max(1, len(stages_in_budget))
        nearest = min((timed(costs, stage) for stage in stages_in_budget), key=lambda c: c.prediction.step_s, default=current)
        if nearest.prediction.step_s >= current.prediction.step_s * (1 - _LEAST_GAIN):
            break
        current = nearest
    return best if current is best else with_full_prediction(costs, dataclasses.replace(current, proof=None))


def _with_samples_moved(stage: Stage) -> Iterator[Stage]:
    """Yield the stages in which all layers of equal samples have one of them moved from one device to another."""
    vectors = dict.fromkeys(entry.samples for entry in stage.layouts if entry.samples)
    for samples, (giver, taker) in itertools.product(vectors, itertools.permutations(range(len(stage.devices)), 2)):
        if samples[giver] > 1:
            moved = list(samples)
            moved[giver] -= 1
            moved[taker] += 1
            entries = [dataclasses.replace(e, samples=tuple(moved)) if e.samples == samples else e for e in stage.layouts]
            yield full_stage(entries, stage.devices)


def _crossed(cost: LayoutCost, stage: Stage, others: Sequence[Stage], most: int) -> Iterator[Stage]:
    """Yield the stages that have one stage's layouts up to a layer and another's from there, at no more places than may be tried."""
    own = cost.choice_of(stage)
    if own is None:
        return
    layers = len(stage.layouts)
    places = np.unique(np.linspace(1, layers - 1, min(layers - 1, most)).astype(int)).tolist() if layers > 1 else []
    for other in others:
        theirs = cost.choice_of(other)
        if theirs is None or theirs == own:
            continue
        for place, (first, second) in itertools.product(places, ((own, theirs), (theirs, own))):
            choice = (*first[:place], *second[place:])
            if choice not in (own, theirs) and np.isfinite(cost.total(choice)):
                yield trimmed_stage(_layouts(cost, choice), stage.devices)


def _layouts(cost: LayoutCost, choice: Sequence[int]) -> tuple[LayerLayout, ...]:
    return cost.space.layouts(cost.graph, [states[at] for states, at in zip(cost.space.states, choice)])
