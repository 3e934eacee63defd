"""The efficiency that communication leaves: compute balanced perfectly, and the bytes of a plan's layouts sent at the measured rate.

The devices d of a plan take c_d seconds of communication a step and r_d for the layers that the plan does not divide: those that it
replicates, or leaves to one device. A device alone would take f_d for the layers that the plan divides. Sizes that balance the devices
perfectly, at no cost for being divided, end a step after

    s = max(max_d (c_d + r_d), (1 + sum_d (c_d + r_d) / f_d) / sum_d 1 / f_d),

the s for which sum_d (s - c_d - r_d) / f_d = 1, as long as no device is busy for longer with what is not divided. Where all layers are
divided and c is the same for all, s = ideal + c, and the ceiling is ideal / (ideal + c). r_d counts, or a plan that divides one small
layer and sends next to nothing would have a ceiling of 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.choose import STRATEGIES
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.records import LayerLayout, Stage
from tools.bench.comparison.lost import ideal_s


def balanced_step_s(own_s: Sequence[float], divided_s: Sequence[float]) -> float:
    """Return the least seconds of a step in which devices divide work as they like.

    Parameters
    ----------
    own_s : (devices,) seconds of what each device does whatever is divided, communication included.
    divided_s : (devices,) seconds that each would take for all of the divided work; 0 where nothing is divided.

    Examples
    --------
    >>> round(balanced_step_s([0.0, 0.0], [1.0, 2.0]), 3)
    0.667
    >>> round(balanced_step_s([0.1, 0.1], [1.0, 2.0]), 3)
    0.767
    >>> balanced_step_s([0.1, 1.5], [1.0, 2.0])
    1.5
    """
    if not all(seconds > 0 for seconds in divided_s):
        return max(own_s)
    rate = sum(1 / seconds for seconds in divided_s)
    return max(*own_s, (1 + sum(own / divided for own, divided in zip(own_s, divided_s, strict=True))) / rate)


def communication_ceilings(profile: Any, plans: Mapping[str, Any], alone_s: Sequence[float], together: bool = False) -> dict[str, float]:
    """Return the ceiling of the efficiency of each plan of several devices, and of what each strategy would take.

    Parameters
    ----------
    profile : Profile; it predicts communication, and which part of a step a layer takes.
    plans : name -> Plan, other candidates; pipelines are left out.
    alone_s : (devices,) measured seconds of a step on each device alone, to which predicted compute is scaled.
    together : whether devices are as fast as the profile has them while those of their host work too, not as fast as alone.

    Returns
    -------
    name -> ideal / least seconds of a step; "single" is the fastest device alone. The largest is that of the layouts that communicate
    least for what they divide, or "single" where all communicate more than they gain.
    """
    costs = Costs(profile)
    stages = {name: plan.stages[0] for name, plan in plans.items() if not plan.pipelined}
    for name, strategy in STRATEGIES.items():
        try:
            stages.setdefault(name, strategy(costs).stage)
        except PlanError:  # nothing to split
            continue
    several = {name: _ceiling(costs, stage, alone_s, together) for name, stage in stages.items() if len(stage.devices) > 1}
    return {"single": ideal_s(alone_s) / min(alone_s), **several}


def _ceiling(costs: Costs, stage: Stage, alone_s: Sequence[float], together: bool) -> float:
    parts = predict(costs, stage, memory=False).parts
    own, divided = _loads(costs, stage)
    scale = (np.array(alone_s) / (costs.alone_s if together else costs.beside_s))[list(stage.devices)]
    own_s = scale * own + [part.communication_s for part in parts]
    return ideal_s(alone_s) / balanced_step_s(own_s.tolist(), (scale * divided).tolist())


def _loads(costs: Costs, stage: Stage) -> tuple[np.ndarray, np.ndarray]:
    """Return the predicted (processors,) seconds of what a stage does not divide, and of all that it divides on each device alone."""
    own, divided = np.zeros(len(stage.devices)), np.zeros(len(stage.devices))
    for entry in stage.layouts:
        for step_pass in _passes(costs, entry.layer):
            if _divides(entry, step_pass):
                divided += costs.tables.rows(entry.layer, "replicated", step_pass)[list(stage.devices), -1]
            else:
                own += costs.spent_on(entry, stage, step_pass)
    return own, divided


def _passes(costs: Costs, layer: int) -> Iterable[str]:
    yield "forward"
    if costs.trains_before[layer]:
        yield "backward"
    if costs.graph.owner(layer) == layer:
        yield "update"


def _divides(entry: LayerLayout, step_pass: str) -> bool:
    """Return whether several devices have a part of a layer's pass; where samples are split, each updates all weights."""
    units, samples = (sum(part > 0 for part in parts) for parts in (entry.sizes, entry.samples))
    return units > 1 or (samples > 1 and step_pass != "update")
