"""The choice of two-batch overlap: whether the plan of one stage computes its batch in two halves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.records import Alternative, Stage
from hetero_mtf.planning.pipeline.late_choice import GainsForSure, beside
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts
from hetero_mtf.planning.pipeline.two_batches import predict_two_batches
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.schedule.names import HALVES
from hetero_mtf.planning.strategies.reasons import bottleneck_part, relative_step


def best_in_two_batches(costs: Costs, stages: Mapping[str, Stage], plan_of: Callable[[str], Plan]) -> Plan | None:
    """Return the plan with the shortest predicted step whose batch is in two halves; None where no layer waits for collectives.

    Parameters
    ----------
    costs : Costs of the profile.
    stages : strategy -> its stage, of those that fit in memory: halves keep as many bytes.
    plan_of : gives the plan of one of these strategies, with its batch in one; called for the one that is returned.
    """
    waiting = {name: stage for name, stage in stages.items() if waits_for_collectives(stage)}
    if costs.profile.batch_size < HALVES or not waiting:
        return None
    halves = MicrobatchCosts(costs.profile, costs)
    predicted = {name: predict_two_batches(halves, stage) for name, stage in waiting.items()}
    name = min(predicted, key=lambda each: predicted[each].step_s)
    return dataclasses.replace(plan_of(name).in_two_batches(), predicted=predicted[name])


def with_two_batches(costs: Costs, best: Plan, halved: Plan | None, gains: GainsForSure) -> Plan:
    """Return the best plan with its batch in two halves, if that is faster by more than predictions err; else the plan in one.

    Parameters
    ----------
    costs : Costs of the profile.
    best : the best plan of one stage with its batch in one.
    halved : of `best_in_two_batches`.
    gains : (costs, step, step of the best plan) -> whether a predicted gain is beyond the predictor's error.

    Notes
    -----
    Only for networks in which two halves give the numbers of the batch (`choose.may_halve_batches`). What is not taken is among the
    alternatives.
    """
    if halved is None:
        return best
    assert best.predicted is not None and halved.predicted is not None
    step_s, best_s, name = halved.predicted.step_s, best.predicted.step_s, f"{halved.strategy} in two batches"
    if not gains(costs, step_s, best_s):
        text = relative_step(step_s, best_s, best.strategy)
        text += ", which is within the error of predictions" if step_s < best_s else ""
        other = Alternative(name, step_s, text, bottleneck_part(halved.predicted))
        return beside(best, other)
    slower = Alternative(best.strategy, best_s, relative_step(best_s, step_s, name), bottleneck_part(best.predicted))
    alike = halved.stages == best.stages
    contributions, proof = (best.contributions, best.proof) if alike else ((), halved.proof)
    return dataclasses.replace(halved, alternatives=(slower, *best.alternatives), contributions=contributions, proof=proof)


def waits_for_collectives(stage: Stage) -> bool:
    """Return whether layers of a stage wait for collectives that the other half of a batch could hide: not where only samples are split."""
    return len(stage.devices) > 1 and any(entry.sizes for entry in stage.layouts)
