"""`hetero-mtf plan`: choose what each device computes, from a profile or from typed shares."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from hetero_mtf.commands.options.pipeline import PipelineAsked, Search, pipeline_options
from hetero_mtf.commands.options.shared import (
    BATCH_SIZE,
    STRATEGIES,
    TYPED,
    RenamedChoice,
    Shares,
    arguments,
    cluster_option,
    model_options,
    open_cluster,
)
from hetero_mtf.commands.options.what_if import what_if, what_if_options
from hetero_mtf.planning.plan.names import EARLIER_NAMES, GRADIENT_SYNCS

if TYPE_CHECKING:
    from hetero_mtf.planning.plan.plan import Plan
    from hetero_mtf.planning.profile.profile import Profile
    from hetero_mtf.planning.profile.what_if import WhatIf


@click.command()
@click.argument("profile", required=False)
@click.option(
    "--strategy", type=RenamedChoice(STRATEGIES, EARLIER_NAMES), default="auto", help="How to choose; auto takes the cheapest that fits."
)
@click.option("--shares", type=Shares(), help="Instead of a profile: relative shares of the devices, with --model and --cluster.")
@click.option(
    "--gradient-sync",
    type=click.Choice(GRADIENT_SYNCS),
    default="all_reduce",
    help="How weights that several devices hold stay alike; butterfly_mixing is not synchronous and goes with strategy batch.",
)
@cluster_option
@model_options(required=False)
@click.option("--batch-size", type=click.IntRange(1), help=f"Samples a step.  [default: the profile's, or {BATCH_SIZE}]")
@click.option("--extrapolate", is_flag=True, help="Let --batch-size be another than the profile was measured at.")
@pipeline_options
@what_if_options
@click.option("-o", "--output", default="plan.json", metavar="FILE", help="The plan to write.")
def command(
    profile: str | None,
    strategy: str,
    shares: tuple[float, ...] | None,
    gradient_sync: str,
    cluster: str,
    model: str | None,
    model_arguments: tuple[tuple[str, Any], ...],
    dtype: str,
    batch_size: int | None,
    extrapolate: bool,
    scale: tuple[str, ...],
    add_like: tuple[str, ...],
    memory: tuple[str, ...],
    bandwidth: str | None,
    output: str,
    **pipeline: Any,
) -> None:
    """Plan from the file PROFILE, which needs neither the model nor its devices; or from --shares typed by hand.

    With --scale, --add-like, --memory, --bandwidth or --extrapolate the plan is for devices or a batch size that were not measured.
    The options that begin with "Pipeline" go with --strategy pipeline, and with auto, which looks for a pipeline too.
    """
    from hetero_mtf.commands.output.plan_report import plan_report
    from hetero_mtf.commands.process.command_files import plan_files
    from hetero_mtf.commands.process.files import check_files
    from hetero_mtf.commands.workload.model_file import load_model

    stages = PipelineAsked(**pipeline)
    check_files(plan_files(model, profile, output, stages.convergence))
    stages.check(strategy, shares is not None, gradient_sync)
    asked = what_if(scale, add_like, memory, bandwidth, batch_size if extrapolate else None)
    if asked and profile is None:
        raise click.UsageError("what if needs a profile; --shares typed by hand suppose nothing")
    if (profile is None) == (shares is None):
        raise click.UsageError("give either a profile or --shares with --model and --cluster")
    if shares is not None:
        if model is None or strategy not in ("auto", *TYPED):
            raise click.UsageError(
                f"--shares split a model; add --model, and --strategy {', '.join(TYPED)} or none, which splits the filters"
            )
        network = load_model(model, arguments(model_arguments), dtype)
        made = _typed(network, strategy, shares, gradient_sync, cluster, batch_size or BATCH_SIZE)
    else:
        from hetero_mtf.commands.output.profile_warnings import print_profile_warnings
        from hetero_mtf.planning.profile.profile import Profile

        found = Profile.load(str(profile))
        made = _planned(found, asked, batch_size, strategy, gradient_sync, stages)
        print_profile_warnings(found)
    made.save(output)
    click.echo(plan_report(made))
    click.echo(f"\nwritten to {output}")


def _planned(profile: Profile, asked: WhatIf, batch_size: int | None, strategy: str, gradient_sync: str, stages: PipelineAsked) -> Plan:
    """Return the plan of a profile, with the picture of its search where that is wanted."""
    from hetero_mtf.planning.choose import PIPELINES_UP_TO, plan_if
    from hetero_mtf.planning.pipeline.device_groups import ALL_GROUPS_UP_TO

    devices = len(profile.cluster.devices)
    few = devices <= PIPELINES_UP_TO
    wanted = bool(stages.typed) or strategy == "pipeline" or (strategy == "auto" and few and gradient_sync == "all_reduce")
    with Search() as search:
        groups = bool(stages.typed) or strategy == "pipeline" or devices <= ALL_GROUPS_UP_TO
        made = plan_if(profile, asked, batch_size, strategy, gradient_sync, stages.wish(search, groups) if wanted else None)
    if stages.convergence is not None:
        search.draw(stages.convergence, made)
        click.echo(f"written to {stages.convergence}\n")
    return made


def _typed(network: Any, strategy: str, shares: tuple[float, ...], gradient_sync: str, cluster: str, batch_size: int) -> Plan:
    from hetero_mtf.planning.plan.plan import Plan

    with open_cluster(cluster) as live:
        if strategy == "batch":
            return Plan.batch(network, shares, live, batch_size, gradient_sync)
        make = Plan.hybrid if strategy == "hybrid" else Plan.filters
        return dataclasses.replace(make(network, shares, live, batch_size), gradient_sync=gradient_sync)
