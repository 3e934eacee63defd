"""`hetero-mtf plan`: choose what each device computes, from a profile or from manual shares."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from hetero_mtf.commands.options.model import model_options
from hetero_mtf.commands.options.pipeline_options import PipelineChoice, SearchProgress, pipeline_options
from hetero_mtf.commands.options.shared import (
    BATCH_SIZE,
    MANUAL,
    STRATEGIES,
    RenamedChoice,
    Shares,
    arguments,
    cluster_option,
    collective_option,
    open_cluster,
    refine_options,
)
from hetero_mtf.commands.options.typed import refuse_unused
from hetero_mtf.commands.options.what_if import parse_what_if, what_if_options
from hetero_mtf.planning.names import EARLIER_NAMES, GRADIENT_SYNCS

if TYPE_CHECKING:
    from hetero_mtf.planning.plan.plan import Plan
    from hetero_mtf.planning.profile.profile import Profile
    from hetero_mtf.planning.profile.what_if import WhatIf


@click.command()
@click.argument("profile_file", metavar="[PROFILE]", required=False)
@click.option(
    "--strategy", type=RenamedChoice(STRATEGIES, EARLIER_NAMES), default="auto", help="How to choose; auto takes the cheapest that fits."
)
@click.option("--shares", type=Shares(), help="Instead of a profile: relative shares of the devices, with --model and --cluster.")
@click.option(
    "--gradient-sync",
    type=click.Choice(GRADIENT_SYNCS),
    default="all_reduce",
    help="How weights that several devices hold stay alike; butterfly_mixing is not synchronous and goes with strategies batch and hybrid.",
)
@collective_option
@cluster_option
@model_options(required=False)
@click.option("--batch-size", type=click.IntRange(1), help=f"Batch size, samples/step.  [default: the profile's, or {BATCH_SIZE}]")
@click.option("--extrapolate", is_flag=True, help="Let --batch-size be another than the profile was measured at.")
@pipeline_options
@what_if_options
@refine_options(default=False)
@click.option("-o", "--output", default="plan.json", metavar="FILE", help="The plan to write.")
def command(
    profile_file: str | None,
    strategy: str,
    shares: tuple[float, ...] | None,
    gradient_sync: str,
    collective: str | None,
    cluster: str,
    model: str | None,
    model_arguments: tuple[tuple[str, Any], ...],
    precision: str | None,
    batch_size: int | None,
    extrapolate: bool,
    scale: tuple[str, ...],
    add_like: tuple[str, ...],
    memory: tuple[str, ...],
    bandwidth: str | None,
    refine: bool,
    refine_time: float | None,
    output: str,
    **pipeline: Any,
) -> None:
    """Plan from the file PROFILE, which needs neither the model nor its devices; or from manual --shares.

    With --scale, --add-like, --memory, --bandwidth or --extrapolate the plan is for devices or a batch size that were not measured.
    With --refine, --model and --cluster, plans are run on the live cluster: the one with the best measured step is written, and the
    profile is written again with the factors that its steps gave.

    The options that begin with "Pipeline" go with --strategy pipeline, and with auto, which looks for a pipeline too.
    """
    from hetero_mtf.commands.command_files import plan_files
    from hetero_mtf.commands.process.files import check_files
    from hetero_mtf.commands.process.start_line import print_planning_line, print_start_line
    from hetero_mtf.commands.workload.model_file import load_model

    pipeline_choice = PipelineChoice(**pipeline)
    check_files(plan_files(model, profile_file, output, pipeline_choice.convergence))
    pipeline_choice.check(strategy, shares is not None, gradient_sync)
    changed = bool(scale or add_like or memory or bandwidth or (extrapolate and batch_size))
    _check_source(profile_file, shares, changed)
    _check_refinement(refine, refine_time, not (changed or pipeline_choice.allow_stale or collective or shares) and model is not None)
    _check_unused(shares is None and not refine, extrapolate and batch_size is None)
    if shares is not None:
        _check_manual(model, strategy)
        print_start_line(cluster)
        network = load_model(str(model), arguments(model_arguments), precision)
        plan = _manual(network, strategy, shares, (gradient_sync, collective), cluster, batch_size)
    else:
        print_planning_line(f"planning from {profile_file}")
        from hetero_mtf.planning.profile.profile import Profile

        what_if = parse_what_if(scale, add_like, memory, bandwidth, batch_size if extrapolate else None)
        profile = Profile.load(str(profile_file))
        plan = _planned(profile, what_if, (batch_size, strategy, gradient_sync), collective, pipeline_choice)
        if refine:
            network = load_model(str(model), arguments(model_arguments), precision)
            plan = _refined(str(profile_file), profile, plan, network, cluster, refine_time)
    from hetero_mtf.commands.output.plan_report import plan_report

    plan.save(output)
    click.echo(f"{plan_report(plan)}\n\nwritten to {output}")


def _planned(profile: Profile, what_if: WhatIf, asked: tuple[int | None, str, str], collective: str | None, choice: PipelineChoice) -> Plan:
    """Return the plan of a profile, with the picture of its search where that is wanted.

    Parameters
    ----------
    asked : batch size, strategy and gradient synchronisation.
    """
    from hetero_mtf.commands.output.profile_report import print_profile_warnings
    from hetero_mtf.planning.choose import PIPELINES_UP_TO, plan_if
    from hetero_mtf.planning.pipeline.device_groups import ALL_GROUPS_UP_TO

    devices, (_, strategy, gradient_sync) = len(profile.cluster.devices), asked
    few = devices <= PIPELINES_UP_TO
    wanted = bool(choice.given) or strategy == "pipeline" or (strategy == "auto" and few and gradient_sync == "all_reduce")
    with SearchProgress() as search:
        groups = bool(choice.given) or strategy == "pipeline" or devices <= ALL_GROUPS_UP_TO
        options = choice.planner_options(search, groups) if wanted else None
        plan = plan_if(profile, what_if, *asked, options, choice.allow_stale, collective)
    if choice.convergence is not None:
        search.draw(choice.convergence, plan)
        click.echo(f"written to {choice.convergence}\n")
    print_profile_warnings(profile)
    return plan


def _check_source(profile_file: str | None, shares: tuple[float, ...] | None, changed: bool) -> None:
    """Raise unless there is either a profile or shares, and a profile for what-if changes."""
    if changed and profile_file is None:
        raise click.UsageError("what if needs a profile; it does not go with --shares")
    if (profile_file is None) == (shares is None):
        raise click.UsageError("give either a profile or --shares with --model and --cluster")


def _check_manual(model: str | None, strategy: str) -> None:
    """Raise unless shares can be planned from."""
    if model is None or strategy not in ("auto", *MANUAL):
        raise click.UsageError(f"--shares split a model; add --model, and --strategy {', '.join(MANUAL)} or none, which splits the filters")


def _check_unused(profile_alone: bool, no_size: bool) -> None:
    """Refuse options that would have no effect: of live devices where a profile is enough, and --extrapolate without a batch size."""
    if profile_alone:
        live = ("model", "model_arguments", "precision", "cluster", "worker_timeout")
        refuse_unused(live, "a profile is planned from without the model and its devices; leave it out, or add --refine")
    if no_size:
        raise click.UsageError("--extrapolate goes with --batch-size, the size to extrapolate to")


def _check_refinement(refine: bool, refine_time: float | None, runs: bool) -> None:
    """Raise unless the options of refinement go with the others, by which a plan of a profile runs on a cluster or does not."""
    if refine and not runs:
        raise click.UsageError(
            "--refine runs the plan of a profile: give --model and --cluster, no --shares, --collective or what-if changes"
        )
    if refine_time is not None and not refine:
        raise click.UsageError("--refine-time goes with --refine")


def _refined(profile_file: str, profile: Profile, plan: Plan, network: Any, cluster: str, limit_s: float | None) -> Plan:
    """Return the plan with the best measured step; the profile's file has the corrections afterwards."""
    from hetero_mtf.commands.options.shared import OptimizerChoice
    from hetero_mtf.commands.workload.first_plan import Prepared
    from hetero_mtf.commands.workload.refining import refined
    from hetero_mtf.keras_reading.layer_graph import layer_graph
    from hetero_mtf.planning.memory.optimizer_slots import optimizer_name
    from hetero_mtf.planning.profile.validity import check_profile
    from hetero_mtf.planning.refinement.limits import TIME_LIMIT_S

    momentum = 0.9 if "momentum" in profile.optimizer else 0.0
    optimizer = OptimizerChoice(optimizer_name(profile.optimizer), None, momentum)
    with open_cluster(cluster) as live:
        check_profile(profile, layer_graph(network), live.record, profile_file)
        prepared = Prepared(plan, profile, None, profile_file)
        return refined(prepared, live, network, "mse", optimizer, TIME_LIMIT_S if limit_s is None else limit_s).plan


def _manual(
    network: Any, strategy: str, shares: tuple[float, ...], sums: tuple[str, str | None], cluster: str, asked_size: int | None
) -> Plan:
    """Return the plan of typed shares.

    Parameters
    ----------
    sums : gradient synchronisation, and the method of all-reduces, None for the defaults.
    """
    from hetero_mtf.keras_reading.layer_graph import layer_graph
    from hetero_mtf.planning.plan.plan import Plan

    graph, batch_size, (gradient_sync, collective) = layer_graph(network), asked_size or BATCH_SIZE, sums
    with open_cluster(cluster) as live:
        if strategy == "batch":
            plan = Plan.batch(graph, shares, live, batch_size, gradient_sync)
        else:
            make = Plan.hybrid if strategy == "hybrid" else Plan.filters
            plan = dataclasses.replace(make(graph, shares, live, batch_size), gradient_sync=gradient_sync)
    return plan if collective is None else plan.with_collective(collective)
