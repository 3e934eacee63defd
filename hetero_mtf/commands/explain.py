"""`hetero-mtf explain`: a plan's sizes, its prediction, what binds, what it was chosen over, and what would change it."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from hetero_mtf.commands.options.what_if import what_if, what_if_options

if TYPE_CHECKING:
    from hetero_mtf.planning.plan.plan import Plan
    from hetero_mtf.planning.profile.profile import Profile
    from hetero_mtf.planning.profile.what_if import WhatIf
    from hetero_mtf.report.measured import Measured
    from hetero_mtf.report.section import Section

Loaded = TypeVar("Loaded")


@click.command()
@click.argument("plan")
@click.option("--profile", metavar="FILE", help="The profile it was made from.  [default: profile.json beside the plan, where it fits]")
@click.option("--measured", metavar="FILE", help="Times that train wrote.  [default: measured.json beside the plan, where it fits]")
@click.option("--html", metavar="FILE", help="A page to write: the same facts with pictures, in one file.")
@what_if_options
@click.option("--batch-size", type=click.IntRange(1), help="What if a batch had so many samples; times are extrapolated.")
def command(
    plan: str,
    profile: str | None,
    measured: str | None,
    html: str | None,
    scale: tuple[str, ...],
    add_like: tuple[str, ...],
    memory: tuple[str, ...],
    bandwidth: str | None,
    batch_size: int | None,
) -> None:
    """Show what the file PLAN says: sizes, the predicted step, what binds, what lost and what each device is worth.

    With --scale, --add-like, --memory, --bandwidth or --batch-size the plan is made anew for devices that are supposed to be so (by auto
    if auto made it, else by its strategy), and both are set side by side.
    """
    from hetero_mtf.commands.process.command_files import explain_files
    from hetero_mtf.commands.process.files import check_files
    from hetero_mtf.planning.plan.plan import Plan
    from hetero_mtf.planning.profile.validity import profile_warnings
    from hetero_mtf.report.facts import ReportedPlan, facts
    from hetero_mtf.report.section import sections_text

    check_files(explain_files(plan, profile, measured, html))
    asked = what_if(scale, add_like, memory, bandwidth, batch_size)
    made = Plan.load(plan)
    found = _profile(profile, plan, made, asked)
    subject = ReportedPlan(made, found, _measured(measured, plan, made), tuple(profile_warnings(found)) if found is not None else ())
    sections = facts(subject)
    if asked:
        assert subject.profile is not None
        sections += _otherwise(subject.plan, subject.profile, asked)
    click.echo(sections_text(sections))
    if html is not None:
        from hetero_mtf.report.page import write_page

        write_page(html, f"{plan}: {made.strategy}, batch size {made.batch_size}", sections)
        click.echo(f"\nwritten to {html}")


def beside(plan: str, kind: str) -> pathlib.Path:
    """Return where a file of another kind is looked for beside a plan.

    Parameters
    ----------
    plan : path of the plan.
    kind : "profile" or "measured".

    Examples
    --------
    >>> beside("run/digits-plan.json", "profile").name, beside("best.json", "measured").name
    ('digits-profile.json', 'measured.json')
    """
    path = pathlib.Path(plan)
    return path.with_name(path.name.replace("plan", kind) if "plan" in path.name else f"{kind}.json")


def _profile(given: str | None, plan: str, made: Plan, asked: WhatIf) -> Profile | None:
    """Return the profile given, or the one beside the plan if it is that of its network, devices and batch size."""
    from hetero_mtf.errors import PlanError
    from hetero_mtf.planning.layout.manual import device_names
    from hetero_mtf.planning.profile.profile import Profile

    def load(path: str) -> Profile:
        found = Profile.load(path)
        made.check(found.graph)
        mine, its = (device_names(found.cluster), found.batch_size), (made.devices, made.batch_size)
        if mine != its:
            told = [f"devices {', '.join(names)} at batch size {size}" for names, size in (mine, its)]
            raise PlanError(f"{path} is for {told[0]} and the plan for {told[1]}; give the profile that the plan was made from")
        return found

    path = str(beside(plan, "profile"))
    if given is None and asked and not pathlib.Path(path).is_file():
        raise PlanError(f"what if needs the profile of the plan and there is no {path}; give it with --profile")
    return _loaded(given, path, load, needed=bool(asked))


def _measured(given: str | None, plan: str, made: Plan) -> Measured | None:
    """Return the times given, or those beside the plan if they are of a run by it."""
    from hetero_mtf.report.measured import Measured

    def load(path: str) -> Measured:
        found = Measured.load(path)
        found.check(made, path)
        return found

    return _loaded(given, str(beside(plan, "measured")), load)


def _loaded(given: str | None, otherwise: str, load: Callable[[str], Loaded], needed: bool = False) -> Loaded | None:
    """Return what is in the file given, or in the one beside the plan, which is left aside with a warning if it does not fit."""
    from hetero_mtf.errors import HeteroError

    if given is None and not pathlib.Path(otherwise).is_file():
        return None
    try:
        return load(given or otherwise)
    except HeteroError as fault:
        if given is not None or needed:
            raise
        click.echo(f"hetero-mtf: warning: {otherwise} is left aside, {fault}", err=True)
        return None


def _otherwise(before: Plan, profile: Profile, asked: WhatIf) -> tuple[Section, ...]:
    from hetero_mtf.errors import PlanError
    from hetero_mtf.planning.choose import plan_if
    from hetero_mtf.planning.cost.step_cost import Costs
    from hetero_mtf.planning.pipeline.plan_prediction import predict_plan
    from hetero_mtf.planning.pipeline.search import PipelineOptions
    from hetero_mtf.planning.profile.what_if import what_if_profile
    from hetero_mtf.report.before_after import before_after

    strategy = "auto" if before.alternatives else before.strategy
    like = PipelineOptions(schedule=_schedule(before), recompute=before.recompute) if before.strategy == "pipeline" else None
    now = predict_plan(Costs(profile), before)  # by the same rules as what is supposed
    if now is None:
        raise PlanError("stages that work one after another have no prediction to set another beside; give the plan another schedule")
    after = plan_if(profile, asked, None, strategy, before.gradient_sync, like)
    if_so = what_if_profile(profile, asked)
    kept = predict_plan(Costs(if_so), before) if before.pipelined else None
    return before_after(dataclasses.replace(before, predicted=now), after, if_so, kept.step_s if kept is not None else None)


def _schedule(plan: Plan) -> str:
    """Return the schedule of a pipeline that a planner may be asked for."""
    return plan.execution.searched_schedule
