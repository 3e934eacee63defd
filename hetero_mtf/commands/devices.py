"""`hetero-mtf devices`: list the devices of a cluster."""

from __future__ import annotations

import click

from hetero_mtf.commands.options.shared import cluster_option
from hetero_mtf.commands.process.quiet import load_tensorflow
from hetero_mtf.commands.process.start_line import print_start_line


@click.command()
@cluster_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def command(cluster: str, as_json: bool) -> None:
    """List the devices of a cluster."""
    print_start_line(cluster)
    load_tensorflow()
    from hetero_mtf.commands.runs.devices import print_devices  # loads NumPy, which no help text waits for

    print_devices(cluster, as_json)
