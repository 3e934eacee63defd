"""Records trainings that try plans as their steps, for `regret`: each network on two and on three devices, of two lengths.

On a machine that does nothing else; a trace is written when its training ends, and what is in the folder is not recorded again.

    python -m tools.bench.start.record_traces --folder tools/bench/start/traces [--network vgg8] [--seconds 60] [--shares 1.0,0.5]
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Sequence

import click

from tools.bench.baselines.tasks import COMPARED
from tools.bench.start.start_trace import FOLDER
from tools.bench.start.started_training import MEASURES, ONE
from tools.bench.start.time_to_train import PROBE_STEPS, run, trace_file

SHARES = ("1.0,0.5", "0.8,0.4,0.4")
LENGTHS = (60.0, 180.0)


@click.command(help=__doc__)
@click.option("--folder", type=click.Path(path_type=pathlib.Path), default=FOLDER, help="Of the traces.  [default: those published]")
@click.option("--network", "names", multiple=True, type=click.Choice(COMPARED), default=COMPARED, help="Several times for more.")
@click.option("--shares", "clusters", multiple=True, default=SHARES, help="Shares of emulated devices; several times for more clusters.")
@click.option("--seconds", "lengths", multiple=True, type=float, default=LENGTHS, help="What the steps take one device.")
@click.option("--rounds", default=1, help="Traces of each.")
def main(folder: pathlib.Path, names: Sequence[str], clusters: Sequence[str], lengths: Sequence[float], rounds: int) -> None:
    """Record what is missing in the folder."""
    tried = next(name for name, measure in MEASURES.items() if measure == "steps")
    for name, cluster in itertools.product(names, clusters):
        shares = [float(share) for share in cluster.split(",")]
        step_s = None
        for seconds, at in itertools.product(lengths, range(1, rounds + 1)):
            path = trace_file(folder, name, shares, seconds, at)
            if path.exists():
                continue
            step_s = step_s or run(name, ONE, shares, PROBE_STEPS)["step_s"]
            figures = run(name, tried, shares, max(PROBE_STEPS, round(seconds / step_s)), trace=path)
            click.echo(f"{path.name}: {figures}", err=True)


if __name__ == "__main__":
    main()
