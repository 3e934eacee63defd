"""What `hetero-mtf devices` does."""

from __future__ import annotations

import json

import click

from hetero_mtf.commands.workload.opened_cluster import open_cluster
from hetero_mtf.report.table import devices_table


def print_devices(cluster: str, as_json: bool) -> None:
    """Print the devices of a cluster.

    Parameters
    ----------
    cluster : the option --cluster.
    as_json : whether as JSON rather than as a table.
    """
    with open_cluster(cluster) as live:
        click.echo(json.dumps(live.record.to_json(), indent=1) if as_json else devices_table(live.record).text())
