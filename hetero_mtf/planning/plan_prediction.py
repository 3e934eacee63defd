"""Predicted step of any plan: of one stage, or of a pipeline."""

from __future__ import annotations

from hetero_mtf.planning.cost import Costs, predict
from hetero_mtf.planning.pipeline_prediction import MicrobatchCosts, Pipeline, predict_pipeline
from hetero_mtf.planning.plan import Plan
from hetero_mtf.planning.records import Prediction


def predict_plan(costs: Costs, plan: Plan) -> Prediction | None:
    """Return the predicted step of a plan; None for several stages of the schedule "synchronous", which nothing simulates.

    Parameters
    ----------
    costs : Costs of a profile of the plan's network, devices and batch size.
    plan : Plan.

    Raises
    ------
    ProfileError
        If the link between two stages was not measured.

    Notes
    -----
    One stage takes its microbatches one after another by any schedule.
    """
    if not (plan.pipelined or plan.recompute):
        return predict(costs, plan.stages[0], plan.gradient_sync)
    if plan.schedule == "synchronous" and len(plan.stages) > 1:
        return None
    schedule = "1f1b" if plan.schedule == "synchronous" else plan.schedule
    pipeline = Pipeline(plan.stages, plan.microbatches, schedule, plan.recompute, plan.depths)
    return predict_pipeline(MicrobatchCosts(costs.profile, costs), pipeline)[0]
