"""Claim: networks of today as users write them gain from a second device: a 3-D U-Net, a vision transformer, a ConvNeXt.

Each is calibrated by default settings on emulated devices, planned by auto and refined, and measured as unseen.py measures the networks
that nobody chose: every device alone, equal batches, auto's plan before and after refinement take turns. Their overhead alone on one
device is in overhead.py.

    python -m tools.bench.today.speed [--network vit] [--shares 1.0,0.5] [--rounds 5] [--refine-time 30]
"""

from __future__ import annotations

import dataclasses
import functools

import click

from tools.bench.comparison.options import rounds_option
from tools.bench.comparison.unseen_rows import TABLE, row
from tools.bench.today.networks import users_networks
from tools.bench.unseen import UnseenPace, attempted, run
from tools.results.output import Cases, Output, output_options
from tools.results.publication import shown

WRITTEN = dataclasses.replace(TABLE, name="written", title="Networks of today, as users write them", case=("network", "cluster"))


@click.command(help=__doc__)
@click.option("--network", "names", multiple=True, type=click.Choice(sorted(users_networks())), help="One, several times for more.")
@click.option("--shares", multiple=True, default=("1.0,0.5",), show_default=True, help="Shares of a core, several times for more.")
@rounds_option(5)
@click.option("--refine-time", "refine_s", default=30.0, show_default=True, help="Seconds that each refinement may take; 0 for none.")
@output_options(after="network")
def main(names: tuple[str, ...], shares: tuple[str, ...], rounds: int, refine_s: float, output: Output) -> None:
    """Measure all networks on all clusters and print the table."""
    measured = functools.partial(run, pace=UnseenPace(rounds, refine_s, None))
    cases = Cases(output)
    for cluster in shares:
        for name, network in users_networks().items():
            if not names or name in names:
                case = cases.measure(f"{name} at {cluster}", functools.partial(attempted, network, cluster, measured))
                output.publish(WRITTEN, [row(case)])
    click.echo(shown(WRITTEN, [row(case) for case in cases.done]))


if __name__ == "__main__":
    main()
