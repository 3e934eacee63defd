"""What `hetero-mtf doctor` does."""

from __future__ import annotations

import sys

import click

from hetero_mtf.commands.workload.opened_cluster import open_cluster
from hetero_mtf.devices.host import available_cores, this_host
from hetero_mtf.doctor.examine import examine
from hetero_mtf.json_file import write_json
from hetero_mtf.report.page import write_page
from hetero_mtf.report.section import sections_text

STAND_IN = "emulate:1.0,0.5"
ABOUT = "Whether hetero_mtf works on this machine, and whether a second device pays."


def doctor(cluster: str, full: bool, json_file: str | None, html: str | None) -> None:
    """Print what was found, and write it to files; end with exit code 1 where anything is at fault.

    Parameters
    ----------
    cluster, full, json_file, html : the options of the command.
    """
    chosen = _chosen(cluster)
    found = examine(lambda: open_cluster(chosen), full, lambda text: click.echo(f"{text} ...", err=True))
    click.echo(sections_text(found.sections()))
    click.echo(f"\n{found.seconds:.0f} s")
    if json_file is not None:
        write_json(json_file, found.to_json())
        click.echo(f"written to {json_file}")
    if html is not None:
        write_page(html, "hetero-mtf doctor", found.sections(), ABOUT, "doctor")
        click.echo(f"written to {html}")
    if found.faults:
        sys.exit(1)


def _chosen(cluster: str) -> str:
    """Return the cluster to try: two emulated devices where this machine has one device only and can emulate them."""
    if cluster != "local" or not sys.platform.startswith("linux") or len(available_cores()) < 2:
        return cluster
    if len(this_host().devices) > 1:
        return cluster
    click.echo(f"this machine has one device; {STAND_IN} stands in for two", err=True)
    return STAND_IN
