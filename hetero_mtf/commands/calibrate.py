"""`hetero-mtf calibrate`: measure devices with the layers of a model."""

from __future__ import annotations

from typing import Any

import click

from hetero_mtf.commands.options import shared
from hetero_mtf.commands.options.model import model_options


@click.command()
@shared.cluster_option
@model_options()
@click.option("--batch-size", type=click.IntRange(1), default=shared.BATCH_SIZE, help="Batch size, samples/step.")
@shared.optimizer_options()
@shared.budget_option
@click.option("--reuse", metavar="FILE", help="An earlier profile; what of it still holds is not measured again.")
@click.option("-o", "--output", default="profile.json", metavar="FILE", help="The profile to write.")
@click.option("--json", "as_json", is_flag=True, help="Print what was measured as JSON instead of tables.")
def command(
    cluster: str,
    model: str,
    model_arguments: tuple[tuple[str, Any], ...],
    precision: str | None,
    batch_size: int,
    optimizer: str,
    momentum: float,
    budget: float | None,
    reuse: str | None,
    output: str,
    as_json: bool,
) -> None:
    """Measure every distinct layer of a model on every device, and the links between the devices, and show the speeds.

    The same tables are shown by hetero-mtf explain PROFILE.

    With --reuse, layers and links that the earlier profile holds for the same devices, batch size and optimizer are kept, unless
    it is more than 30 days old or two layers, measured again as a check, take a different time; --output may be the same file.
    """
    from hetero_mtf.commands.command_files import calibrate_files
    from hetero_mtf.commands.process.files import check_files
    from hetero_mtf.commands.process.start_line import print_start_line

    check_files(calibrate_files(model, reuse, output))
    print_start_line(cluster)
    from hetero_mtf.commands.output.profile_report import print_profile_warnings, profile_json, profile_text
    from hetero_mtf.commands.workload.first_plan import measure
    from hetero_mtf.commands.workload.model_file import load_model
    from hetero_mtf.planning.profile.profile import Profile

    earlier = None if reuse is None else Profile.load(reuse)
    choice = shared.OptimizerChoice(optimizer, None, momentum)
    network = load_model(model, shared.arguments(model_arguments), precision)

    with shared.open_cluster(cluster) as live:
        if earlier is not None:
            print_profile_warnings(earlier, live.record)
        profile = measure(live, network, batch_size, choice, budget, earlier)
    profile.save(output)
    if as_json:
        click.echo(profile_json(profile))
        return
    click.echo(f"{profile_text(profile)}\n\nwritten to {output}")
