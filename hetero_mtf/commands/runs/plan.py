"""What `hetero-mtf plan` does; TensorFlow is loaded only where a model and its devices are needed."""

from __future__ import annotations

import click

from hetero_mtf.commands.options.parsed_what_if import parse_what_if
from hetero_mtf.commands.options.planning_request import PlanningRequest
from hetero_mtf.commands.options.shared import arguments
from hetero_mtf.commands.output.plan_report import plan_report
from hetero_mtf.commands.output.profile_report import print_profile_warnings
from hetero_mtf.commands.output.search_progress import SearchProgress, planner_options
from hetero_mtf.commands.process.quiet import load_tensorflow
from hetero_mtf.commands.workload.model_source import check_model
from hetero_mtf.planning.choose import PIPELINES_UP_TO, plan_if
from hetero_mtf.planning.pipeline.device_groups import ALL_GROUPS_UP_TO
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.validity import age_text
from hetero_mtf.planning.profile.what_if import WhatIf


def plan(request: PlanningRequest) -> None:
    """Write the plan that is asked for, and print it.

    Parameters
    ----------
    request : the options of the command.

    Raises
    ------
    HeteroError
        If a file cannot be read or written, or there is no such plan.
    """
    new_plan = _new_plan(request)
    new_plan.save(request.output)
    click.echo(f"{plan_report(new_plan)}\n\nwritten to {request.output}")


def _new_plan(request: PlanningRequest) -> Plan:
    """Return the plan of a profile, refined where that is asked for, or that of typed shares."""
    if request.shares is None:
        what_if = parse_what_if(*request.changes)
        profile = Profile.load(str(request.profile_file))
        planned = _planned(profile, what_if, request)
        if not request.refine:
            return planned
    check_model(str(request.model), arguments(request.model_arguments))
    load_tensorflow()
    from hetero_mtf.commands.runs.plan_with_model import manual_plan, refined_plan  # need TensorFlow, which is loaded quietly by now

    return manual_plan(request, request.shares) if request.shares is not None else refined_plan(request, profile, planned)


def _planned(profile: Profile, what_if: WhatIf, request: PlanningRequest) -> Plan:
    """Return the plan of a profile, with the picture of its search where that is wanted."""
    choice, strategy, devices = request.pipeline, request.strategy, len(profile.cluster.devices)
    few = devices <= PIPELINES_UP_TO
    wanted = bool(choice.given) or strategy == "pipeline" or (strategy == "auto" and few and request.gradient_sync == "all_reduce")
    with SearchProgress() as search:
        groups = bool(choice.given) or strategy == "pipeline" or devices <= ALL_GROUPS_UP_TO
        options = planner_options(choice, search, groups) if wanted else None
        asked = (request.batch_size, strategy, request.gradient_sync)
        planned = plan_if(profile, what_if, *asked, options, choice.allow_stale, request.collective)
    if choice.convergence is not None:
        search.draw(choice.convergence, planned)
        click.echo(f"written to {choice.convergence}\n")
    print_profile_warnings(profile)
    age = age_text(profile)
    if age:
        click.echo(f"{request.profile_file} was measured {age} ({profile.measured_at[:10]})\n")
    return planned
