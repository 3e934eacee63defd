"""Whether a pipeline without a flush is taken where it is allowed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from hetero_mtf.errors import NothingToSplitError, PlanError
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.arrangement import takes_statistics
from hetero_mtf.planning.layout.records import Alternative
from hetero_mtf.planning.names import STALE_SCHEDULES
from hetero_mtf.planning.pipeline.device_groups import ALL_GROUPS_UP_TO
from hetero_mtf.planning.pipeline.plans import stale_plan
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts
from hetero_mtf.planning.pipeline.search import PipelineOptions
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.strategies.reasons import bottleneck_part, relative_step

GainsForSure = Callable[[Costs, float, float], bool]


def with_stale(costs: Costs, best: Plan, options: PipelineOptions | None, gains: GainsForSure) -> Plan:
    """Return the best plan of schedules without a flush if it is faster than a synchronous one, each an alternative of the other.

    Parameters
    ----------
    best : the synchronous plan.
    options : requirements of a pipeline; None for any.
    gains : (costs, step, step of one device) -> whether a predicted gain over one device is beyond the predictor's error.

    Notes
    -----
    A network whose layers take statistics of the batch has those of microbatches under "1f1b_2bw"; it is then left out.
    """
    groups = len(costs.profile.cluster.devices) <= ALL_GROUPS_UP_TO
    for schedule in STALE_SCHEDULES:
        asked = dataclasses.replace(options or PipelineOptions(groups=groups), schedule=schedule, recompute=False, replicas=None)
        if schedule == "decoupled":
            asked = dataclasses.replace(asked, microbatches=None)
        elif any(takes_statistics(layer) for layer in costs.graph.layers):
            continue
        best = _faster(costs, best, asked, gains)
    return best


def _faster(costs: Costs, best: Plan, options: PipelineOptions, gains: GainsForSure) -> Plan:
    try:
        stale = stale_plan(MicrobatchCosts(costs.profile, costs), options)
    except (NothingToSplitError, PlanError) as fault:
        return beside(best, Alternative(options.schedule, None, fault.reason))
    assert stale.predicted is not None and best.predicted is not None
    stale_s, best_s = stale.predicted.step_s, best.predicted.step_s
    is_faster = gains(costs, stale_s, best_s) if best.strategy == "single" else stale_s < best_s
    if not is_faster:
        return beside(
            best, Alternative(options.schedule, stale_s, relative_step(stale_s, best_s, best.strategy), bottleneck_part(stale.predicted))
        )
    name = best.schedule if best.schedule in STALE_SCHEDULES else best.strategy
    slower = Alternative(name, best_s, relative_step(best_s, stale_s, stale.schedule), bottleneck_part(best.predicted))
    return dataclasses.replace(stale, alternatives=(slower, *best.alternatives))


def beside(plan: Plan, alternative: Alternative) -> Plan:
    """Return a plan with one more alternative that was considered.

    Parameters
    ----------
    plan : the plan that is taken.
    alternative : the other.
    """
    return dataclasses.replace(plan, alternatives=(*plan.alternatives, alternative))
