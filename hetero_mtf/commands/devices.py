"""`hetero-mtf devices`: list the devices of a cluster."""

from __future__ import annotations

import json

import click

from hetero_mtf.commands.options.shared import cluster_option, open_cluster


@click.command()
@cluster_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def command(cluster: str, as_json: bool) -> None:
    """List the devices of a cluster."""
    from hetero_mtf.commands.process.quiet import load_tensorflow
    from hetero_mtf.commands.process.start_line import print_start_line

    print_start_line(cluster)
    load_tensorflow()
    from hetero_mtf.report.table import devices_table

    with open_cluster(cluster) as live:
        click.echo(json.dumps(live.record.to_json(), indent=1) if as_json else devices_table(live.record).text())
