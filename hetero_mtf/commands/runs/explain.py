"""What `hetero-mtf explain` does: see `explain`."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from typing import TypeVar

import click

from hetero_mtf.commands.options.parsed_what_if import parse_what_if
from hetero_mtf.commands.options.what_if import WhatIfTexts
from hetero_mtf.commands.output.profile_report import profile_json, profile_report
from hetero_mtf.commands.process.run_files import beside_plan
from hetero_mtf.errors import HeteroError, PlanError
from hetero_mtf.file_kind import PLAN_HISTORY, PROFILE, file_kind
from hetero_mtf.planning.choose import plan_if
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.exploration.plan_history import PlanHistory
from hetero_mtf.planning.layout.manual import device_names
from hetero_mtf.planning.pipeline.plan_prediction import predict_plan
from hetero_mtf.planning.pipeline.search import PipelineOptions
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.validity import profile_warnings
from hetero_mtf.planning.profile.what_if import WhatIf, what_if_clauses, what_if_profile
from hetero_mtf.report.before_after import before_after
from hetero_mtf.report.measured import Measured
from hetero_mtf.report.page import ABOUT_PLAN, ABOUT_PROFILE, write_page
from hetero_mtf.report.plan_facts import facts, reported_plan
from hetero_mtf.report.section import Section, sections_text
from hetero_mtf.report.time_line.plan_spans import plan_spans
from hetero_mtf.training.control.text import split_text
from hetero_mtf.units import list_text

Loaded = TypeVar("Loaded")


def explain(
    plan_file: str, profile_file: str | None, measured_file: str | None, changes: WhatIfTexts, html: str | None, as_json: bool
) -> None:
    """Print what is in a plan or a profile, and write the page that is wanted.

    Parameters
    ----------
    plan_file : file of a plan or a profile.
    profile_file, measured_file : files that go with a plan; None for those beside it that fit.
    changes : changed devices, links or batch size, as they were typed.
    html : page to write; None for none.
    as_json : whether to print JSON, of a profile.

    Raises
    ------
    HeteroError
        If a file cannot be read, or does not go with the others.
    """
    what_if = parse_what_if(*changes)
    if file_kind(plan_file) == PROFILE:
        if profile_file is not None or measured_file is not None:
            raise click.UsageError(f"{plan_file} is a profile; --profile and --measured go with a plan, leave them out")
        _explain_profile(plan_file, what_if, html, as_json)
        return
    if as_json:
        raise click.UsageError("--json goes with a profile; a plan is a JSON file itself")
    if file_kind(plan_file) == PLAN_HISTORY:
        if profile_file is not None or measured_file is not None or what_if:
            raise click.UsageError(f"{plan_file} has the plans of a training; --profile, --measured and what-if options go with a plan")
        _explain_plans(plan_file, html)
        return
    plan = Plan.load(plan_file)
    profile = _profile(profile_file, plan_file, plan, what_if)
    warnings = tuple(profile_warnings(profile)) if profile is not None else ()
    reported = reported_plan(plan, profile, _measured(measured_file, plan_file, plan), warnings)
    sections = facts(reported)
    if what_if:
        assert profile is not None
        sections += _before_after(reported.plan, profile, what_if)
    _show(sections, html, f"{plan_file}: {plan.strategy}, batch size {plan.batch_size}")


def _show(sections: Sequence[Section], html: str | None, title: str, kind: str = "plan") -> None:
    """Print sections, and write the page that is wanted."""
    click.echo(sections_text(sections))
    if html is not None:
        write_page(html, title, sections, ABOUT_PROFILE if kind == "profile" else ABOUT_PLAN)
        click.echo(f"\nwritten to {html}")


def _explain_profile(path: str, what_if: WhatIf, html: str | None, as_json: bool) -> None:
    measured = Profile.load(path)
    profile = what_if_profile(measured, what_if) if what_if else measured
    if as_json:
        click.echo(profile_json(profile))
        return
    clauses = what_if_clauses(measured, what_if) if what_if else ()
    names = list_text([device.name for device in profile.cluster.devices], 4)
    _show(profile_report(profile, clauses), html, f"{path}: {names}, batch size {profile.batch_size}", "profile")


def _explain_plans(path: str, html: str | None) -> None:
    """Show which plan of a training was in force when, and then the last of them."""
    history = PlanHistory.load(path)
    last = history.spans[-1].plan
    _show((plan_spans(history, split_text), *facts(reported_plan(last, None, None, ()))), html, f"{path}: the last plan is {last.strategy}")


def _profile(given: str | None, plan_file: str, plan: Plan, what_if: WhatIf) -> Profile | None:
    """Return the profile given, or the one beside the plan if it is that of its network, devices and batch size."""
    def load(path: str) -> Profile:
        profile = Profile.load(path)
        plan.check(profile.graph)
        pairs = (device_names(profile.cluster), profile.batch_size), (plan.devices, plan.batch_size)
        if pairs[0] != pairs[1]:
            texts = [f"devices {', '.join(names)} at batch size {size}" for names, size in pairs]
            raise PlanError(f"{path} is for {texts[0]} and the plan for {texts[1]}", "give the profile that the plan was made from")
        return profile

    path = str(beside_plan(plan_file, "profile"))
    if given is None and what_if and not pathlib.Path(path).is_file():
        raise PlanError(f"what if needs the profile of the plan and there is no {path}", "give it with --profile")
    return _loaded(given, path, load, needed=bool(what_if))


def _measured(given: str | None, plan_file: str, plan: Plan) -> Measured | None:
    """Return the times given, or those beside the plan if they are of a run by it."""
    def load(path: str) -> Measured:
        measured = Measured.load(path)
        measured.check(plan, path)
        return measured

    return _loaded(given, str(beside_plan(plan_file, "measured")), load)


def _loaded(given: str | None, default: str, load: Callable[[str], Loaded], needed: bool = False) -> Loaded | None:
    """Return the content of the file given, or of the default one beside the plan, which is ignored with a warning if it does not fit."""
    if given is None and not pathlib.Path(default).is_file():
        return None
    try:
        return load(given or default)
    except HeteroError as fault:
        if given is not None or needed:
            raise
        click.echo(f"hetero-mtf: warning: {default} is left aside, {fault}", err=True)
        return None


def _before_after(before: Plan, profile: Profile, what_if: WhatIf) -> tuple[Section, ...]:
    strategy = "auto" if before.alternatives else before.strategy
    options = None
    if before.strategy == "pipeline":
        options = PipelineOptions(schedule=before.execution.searched_schedule, recompute=before.recompute)
    predicted = predict_plan(Costs(profile), before)  # by the rules that the other plan is predicted by
    if predicted is None:
        raise PlanError("stages that work one after another have no prediction to set another beside", "give the plan another schedule")
    after = plan_if(profile, what_if, None, strategy, before.gradient_sync, options)
    changed = what_if_profile(profile, what_if)
    kept = predict_plan(Costs(changed), before) if before.pipelined else None
    return before_after(dataclasses.replace(before, predicted=predicted), after, changed, kept.step_s if kept is not None else None)
