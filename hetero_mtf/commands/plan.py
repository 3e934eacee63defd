"""`hetero-mtf plan`: choose what each device computes, from a profile or from manual shares."""

from __future__ import annotations

from typing import Any

import click

from hetero_mtf.commands.command_files import plan_files
from hetero_mtf.commands.options.model import model_options
from hetero_mtf.commands.options.pipeline_options import PipelineChoice, pipeline_options
from hetero_mtf.commands.options.planning_request import PlanningRequest
from hetero_mtf.commands.options.shared import (
    BATCH_SIZE,
    STRATEGIES,
    RenamedChoice,
    Shares,
    cluster_option,
    collective_option,
    refine_options,
)
from hetero_mtf.commands.options.what_if import what_if_options
from hetero_mtf.commands.process.files import check_files
from hetero_mtf.commands.process.start_line import print_planning_line, print_start_line
from hetero_mtf.planning.names import EARLIER_NAMES, GRADIENT_SYNCS


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
def command(**options: Any) -> None:
    """Plan from the file PROFILE, which needs neither the model nor its devices; or from manual --shares.

    With --scale, --add-like, --memory, --bandwidth or --extrapolate the plan is for devices or a batch size that were not measured.
    With --refine, --model and --cluster, plans are run on the live cluster: the one with the best measured step is written, and the
    profile is written again with the factors that its steps gave.

    The options that begin with "Pipeline" go with --strategy pipeline, and with auto, which looks for a pipeline too.
    """
    pipeline = PipelineChoice.taken(options)
    request = PlanningRequest(pipeline=pipeline, **options)
    check_files(plan_files(request.model, request.profile_file, request.output, pipeline.convergence))
    request.check()
    if request.shares is not None:
        print_start_line(request.cluster)
    else:
        print_planning_line(f"planning from {request.profile_file}")
    from hetero_mtf.commands.runs.plan import plan  # loads SciPy, so after the first line

    plan(request)
