"""`hetero-mtf calibrate`: measure devices with the layers of a model."""

from __future__ import annotations

from typing import Any

import click

from hetero_mtf.commands import options as shared


@click.command()
@shared.cluster_option
@shared.model_options()
@click.option("--batch-size", type=click.IntRange(1), default=shared.BATCH_SIZE, help="Samples a step.")
@shared.optimizer_options
@shared.budget_option
@click.option("-o", "--output", default="profile.json", metavar="FILE", help="The profile to write.")
def command(
    cluster: str,
    model: str,
    model_arguments: tuple[tuple[str, Any], ...],
    dtype: str,
    batch_size: int,
    optimizer: str,
    momentum: float,
    budget: float | None,
    output: str,
) -> None:
    """Measure every distinct layer of a model on every device, and the links between the devices."""
    from hetero_mtf.commands.model_file import load_model
    from hetero_mtf.commands.preparation import measure
    from hetero_mtf.commands.target import check_target

    check_target(output)
    choice = shared.OptimizerChoice(optimizer, None, momentum)
    network = load_model(model, shared.arguments(model_arguments), dtype)
    from hetero_mtf.runtime.cluster import Cluster

    with Cluster.parse(cluster) as live:
        profile = measure(live, network, batch_size, choice, budget)
    profile.save(output)
    click.echo(f"{output}: {len(profile.curves)} curves and {len(profile.links)} links of {len(profile.cluster.devices)} devices")
