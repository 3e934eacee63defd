"""`hetero-mtf plan`: choose what each device computes, from a profile or from typed shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hetero_mtf.commands.options import BATCH_SIZE, STRATEGIES, Shares, arguments, cluster_option, model_options

if TYPE_CHECKING:
    from hetero_mtf.planning.plan import Plan


@click.command()
@click.argument("profile", required=False)
@click.option("--strategy", type=click.Choice(STRATEGIES), default="auto", help="How to choose; auto takes the cheapest that fits.")
@click.option("--shares", type=Shares(), help="Instead of a profile: relative shares of the devices, with --model and --cluster.")
@cluster_option
@model_options(required=False)
@click.option("--batch-size", type=click.IntRange(1), help=f"Samples a step.  [default: the profile's, or {BATCH_SIZE}]")
@click.option("-o", "--output", default="plan.json", metavar="FILE", help="The plan to write.")
def command(
    profile: str | None,
    strategy: str,
    shares: tuple[float, ...] | None,
    cluster: str,
    model: str | None,
    model_arguments: tuple[tuple[str, Any], ...],
    dtype: str,
    batch_size: int | None,
    output: str,
) -> None:
    """Plan from the file PROFILE, which needs neither the model nor its devices; or from --shares typed by hand."""
    from hetero_mtf.commands.plan_report import plan_report
    from hetero_mtf.commands.target import check_target

    check_target(output)
    if (profile is None) == (shares is None):
        raise click.UsageError("give either a profile or --shares with --model and --cluster")
    if shares is not None:
        if model is None or strategy not in ("auto", "filters"):
            raise click.UsageError("--shares split the filters of a model; add --model, and leave --strategy out")
        made = _typed(shares, cluster, model, arguments(model_arguments), dtype, batch_size or BATCH_SIZE)
    else:
        from hetero_mtf.planning.profile import Profile
        from hetero_mtf.planning.strategies import plan

        made = plan(Profile.load(str(profile)), batch_size, strategy)
    made.save(output)
    click.echo(plan_report(made))
    click.echo(f"\nwritten to {output}")


def _typed(shares: tuple[float, ...], cluster: str, model: str, named: Any, dtype: str, batch_size: int) -> Plan:
    from hetero_mtf.commands.model_file import load_model
    from hetero_mtf.planning.plan import Plan
    from hetero_mtf.runtime.cluster import Cluster

    network = load_model(model, named, dtype)
    with Cluster.parse(cluster) as live:
        return Plan.filters(network, shares, live, batch_size)
