"""Before training, or with `plan --refine`: the plan with the best measured step."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from hetero_mtf.commands.output.plan_report import refinement_text
from hetero_mtf.commands.process.interruption import interruptible
from hetero_mtf.commands.workload.first_plan import Prepared
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.refinement.limits import TIME_LIMIT_S
from hetero_mtf.training.refine import refine

PART_OF_TRAINING = 0.05
LEAST_S = 2.0  # in less no plan is built and run


def refine_limit_s(plan: Plan, steps: int) -> float | None:
    """Return the seconds that refinement may take before a training; None where the training is too short for it.

    Parameters
    ----------
    plan : the plan to begin with.
    steps : steps of the training.
    """
    if plan.predicted is None:
        return None
    limit_s = min(TIME_LIMIT_S, PART_OF_TRAINING * steps * plan.predicted.step_s)
    return limit_s if limit_s >= LEAST_S else None


def refined(prepared: Prepared, cluster: Any, model: Any, loss: Any, optimizer: Any, limit_s: float) -> Prepared:
    """Return the plan with the best measured step, after printing what was run; a profile and plan that were saved are saved again.

    Parameters
    ----------
    prepared : a plan and its profile.
    cluster : live cluster.
    model, loss, optimizer : what is trained, of Keras.
    limit_s : seconds after which no further plan is tried.
    """
    assert prepared.profile is not None
    click.echo("running steps of the plan and of others that promise as much")
    settings = {"loss": loss, "optimizer": optimizer, "time_limit_s": limit_s}
    with interruptible(cluster.close):
        refinement = refine(prepared.plan, prepared.profile, model, cluster, **settings)
    click.echo(f"{refinement_text(refinement)}\n")
    if prepared.plan_file is not None:
        refinement.plan.save(prepared.plan_file)
    if prepared.profile_file is not None:
        refinement.profile.save(prepared.profile_file)
    return dataclasses.replace(prepared, plan=refinement.plan, profile=refinement.profile)
