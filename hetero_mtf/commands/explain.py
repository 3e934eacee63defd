"""`hetero-mtf explain`: a plan's layouts, its prediction, and what it was chosen over."""

from __future__ import annotations

import click


@click.command()
@click.argument("plan")
def command(plan: str) -> None:
    """Show what the file PLAN says: each layer's layout, the predicted step, and the strategies not taken."""
    from hetero_mtf.commands.plan_report import plan_report
    from hetero_mtf.planning.plan import Plan

    click.echo(plan_report(Plan.load(plan)))
