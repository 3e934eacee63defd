"""Predicted step of any plan: of one stage, or of a pipeline, with its time line."""

from __future__ import annotations

import dataclasses

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.records import Prediction
from hetero_mtf.planning.names import STALE_SCHEDULES
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts, Pipeline, predict_pipeline
from hetero_mtf.planning.pipeline.stale.prediction import predict_stale
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.schedule.simulator import Simulation


def predict_plan(costs: Costs, plan: Plan) -> Prediction | None:
    """Return the predicted step of a plan; None for several stages of the schedule "synchronous", which has no simulation.

    Parameters
    ----------
    costs : costs of a profile of the plan's network, devices and batch size.

    Raises
    ------
    ProfileError
        If the link between two stages was not measured.

    Notes
    -----
    One stage takes its microbatches one after another by any schedule.
    """
    if not (plan.pipelined or plan.recompute):
        return predict(costs, plan.stages[0], plan.gradient_sync, bucket_bytes=plan.bucket_bytes)
    predicted = time_line(costs, plan)
    return predicted[0] if predicted is not None else None


def time_line(costs: Costs, plan: Plan) -> tuple[Prediction, Simulation] | None:
    """Return the predicted step of a pipeline with its time line, of one tick without a flush; None for a plan that has no simulation.

    Parameters
    ----------
    costs, plan : as for `predict_plan`; the costs may be at another batch size.

    Raises
    ------
    ProfileError
        If the link between two stages was not measured.
    """
    if plan.schedule in STALE_SCHEDULES and len(plan.stages) > 1:
        return predict_stale(MicrobatchCosts(costs.profile, costs), plan.stages, plan.execution)
    pipeline = pipeline_of(plan)
    return predict_pipeline(MicrobatchCosts(costs.profile, costs), pipeline) if pipeline is not None else None


def pipeline_of(plan: Plan) -> Pipeline | None:
    """Return a plan's stages and their execution; None for one stage, and for schedules without a clock table."""
    one_by_one = plan.schedule in ("synchronous", *STALE_SCHEDULES) and len(plan.stages) > 1
    if one_by_one or not (plan.pipelined or plan.recompute):
        return None
    schedule = "1f1b" if plan.schedule in ("synchronous", *STALE_SCHEDULES) else plan.schedule
    return Pipeline(plan.stages, dataclasses.replace(plan.execution, schedule=schedule, stale=None))
