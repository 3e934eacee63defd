"""`hetero-mtf explain`: a plan's sizes, prediction, bottleneck, alternatives and contributions, a profile's speeds, a training's plans."""

from __future__ import annotations

import click

from hetero_mtf.commands.command_files import explain_files
from hetero_mtf.commands.options.what_if import WhatIfTexts, what_if_options
from hetero_mtf.commands.process.files import check_files
from hetero_mtf.commands.process.start_line import print_planning_line


@click.command()
@click.argument("plan_file", metavar="FILE")
@click.option(
    "--profile",
    "profile_file",
    metavar="FILE",
    help="The profile that the plan was made from.  [default: profile.json beside the plan, where it fits]",
)
@click.option(
    "--measured", "measured_file", metavar="FILE", help="Times that train wrote.  [default: measured.json beside the plan, where it fits]"
)
@click.option("--html", metavar="FILE", help="A page to write: the same facts with pictures, in one file.")
@what_if_options
@click.option("--batch-size", type=click.IntRange(1), help="What if a batch had this many samples; times are extrapolated.")
@click.option("--json", "as_json", is_flag=True, help="Of a profile: print JSON instead of tables.")
def command(
    plan_file: str,
    profile_file: str | None,
    measured_file: str | None,
    html: str | None,
    scale: tuple[str, ...],
    add_like: tuple[str, ...],
    memory: tuple[str, ...],
    bandwidth: str | None,
    batch_size: int | None,
    as_json: bool,
) -> None:
    """Show what is in FILE, a plan, a profile, or the plans of a training.

    Of a plan: sizes, the predicted step, the bottleneck, the alternatives considered and each device's contribution. Of a profile: the
    speeds of devices and links, the shares that they suggest, and what a plan would gain. Of the plans of a training, state-plans.json:
    from which step to which each was in force and how fast its steps were, then the last of them.

    With --scale, --add-like, --memory, --bandwidth or --batch-size another plan is made for the changed devices or batch size, and both
    are shown side by side. It is made by auto if auto made the plan, else by its strategy. A profile is shown as changed.
    """
    if as_json and html is not None:
        raise click.UsageError("--json and --html exclude each other: JSON is printed instead of the tables that a page shows")
    check_files(explain_files(plan_file, profile_file, measured_file, html))
    print_planning_line(f"reading {plan_file}")
    from hetero_mtf.commands.runs.explain import explain  # loads SciPy, so after the first line

    explain(plan_file, profile_file, measured_file, WhatIfTexts(scale, add_like, memory, bandwidth, batch_size), html, as_json)
