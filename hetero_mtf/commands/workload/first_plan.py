"""Before training: a profile that was measured on these devices, and a plan that fits."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from hetero_mtf.calibration.calibrate import calibrate
from hetero_mtf.commands.options.shared import BATCH_SIZE, OptimizerChoice
from hetero_mtf.commands.output.profile_report import print_profile_warnings
from hetero_mtf.commands.process.interruption import interruptible
from hetero_mtf.commands.process.run_files import beside
from hetero_mtf.commands.workload.chosen_optimizer import optimizer_of
from hetero_mtf.errors import PlanError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning import choose
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.validity import check_profile
from hetero_mtf.program.optimizer_reading import optimizer_spec


@dataclasses.dataclass(frozen=True)
class PlanRequest:
    """Which plan to train by, as given on the command line.

    Parameters
    ----------
    plan_file, profile_file : files to take it from, at most one of them.
    strategy : how to choose from a profile.
    batch_size : samples a step; None for the file's.
    budget_s : seconds calibration may take; None for the default, infinity for a thorough calibration.
    run_file : path of a file beside which a new profile and plan are saved, such as run/state.npz.
    allow_stale : whether a pipeline whose gradients are late may be chosen.
    collective : method of every all-reduce; None for the plan's.
    """

    plan_file: str | None = None
    profile_file: str | None = None
    strategy: str = "auto"
    batch_size: int | None = None
    budget_s: float | None = None
    run_file: str = "train"
    allow_stale: bool = False
    collective: str | None = None


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A plan to train by.

    Parameters
    ----------
    plan : the plan.
    profile : the profile that it was made from; None if it was read from a file.
    plan_file : the file that holds it; None if none does.
    profile_file : the file that holds the profile, where it was measured now; None if none does.
    """

    plan: Plan
    profile: Profile | None
    plan_file: str | None = None
    profile_file: str | None = None


def prepare(request: PlanRequest, cluster: Any, model: Any, graph: LayerGraph, optimizer: OptimizerChoice) -> Prepared:
    """Return the plan to train by; without a plan or profile, measure and plan first and save both.

    Parameters
    ----------
    cluster : live cluster.
    model, graph : Keras model and its LayerGraph.
    optimizer : the optimizer to train with.

    Raises
    ------
    HeteroError
        If a file cannot be read, or is for another network, cluster, batch size or optimizer.
    """
    if request.plan_file is not None:
        plan = Plan.load(request.plan_file)
        _check_batch_size(plan, request)
        if request.collective is not None:
            return Prepared(plan.with_collective(request.collective), None)
        return Prepared(plan, None, request.plan_file)
    if request.profile_file is not None:
        profile = Profile.load(request.profile_file)
        check_profile(profile, graph, cluster.record, request.profile_file)
        options: dict[str, Any] = {"allow_stale": request.allow_stale, "collective": request.collective}
        plan = choose.plan(profile, request.batch_size, request.strategy, optimizer_spec(optimizer_of(optimizer)), **options)
        print_profile_warnings(profile, cluster.record)
        return Prepared(plan, profile)
    return _measured(request, cluster, model, optimizer)


def _measured(request: PlanRequest, cluster: Any, model: Any, optimizer: OptimizerChoice) -> Prepared:
    profile_path, plan_path = (beside(request.run_file, kind) for kind in ("profile", "plan"))
    click.echo("there is neither a plan nor a profile: measuring the devices first")
    profile = measure(cluster, model, request.batch_size or BATCH_SIZE, optimizer, request.budget_s)
    profile.save(profile_path)
    plan = choose.plan(profile, strategy=request.strategy, allow_stale=request.allow_stale, collective=request.collective)
    plan.save(plan_path)
    click.echo(f"saved {profile_path} and {plan_path}")
    return Prepared(plan, profile, str(plan_path), str(profile_path))


def measure(
    cluster: Any, model: Any, batch_size: int, optimizer: OptimizerChoice, budget_s: float | None, earlier: Profile | None = None
) -> Profile:
    """Return the profile of a cluster for a model, with a progress bar; an interruption ends the cluster.

    Parameters
    ----------
    cluster : live cluster.
    model : Keras model.
    batch_size : samples a step.
    optimizer : whose updates are measured.
    budget_s : seconds it may take; None for the default, infinity for a thorough calibration.
    earlier : a profile, of which what still holds is kept.
    """
    with interruptible(cluster.close):
        return calibrate(cluster, model, batch_size=batch_size, optimizer=optimizer_of(optimizer), budget_s=budget_s, earlier=earlier)


def _check_batch_size(plan: Plan, request: PlanRequest) -> None:
    if request.batch_size not in (None, plan.batch_size):
        asked = f"{request.plan_file} is for batches of {plan.batch_size} and --batch-size is {request.batch_size}"
        raise PlanError(f"{asked}", "leave the option out or plan again")
