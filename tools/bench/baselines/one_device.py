"""Claim: one device takes a step here as fast as other libraries take it on the same limited core.

What a comparison of several devices holds besides the split: the same five networks, batches and limits as in rivals.py, with one emulated
device, whose whole core or half of it, by this project's single-device plan, tf.distribute.MultiWorkerMirroredStrategy of one worker and
PyTorch's DistributedDataParallel of one process. All are open side by side and take turns; a figure is the median over rounds. Where its
step / ours is less than 1 the other library's kernels are faster, and so is its step on several devices, however the work is split.

    python -m tools.bench.baselines.one_device [--torch-python ~/torch-env/bin/python] [--network unet3d] [--limit compute]
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import click

from hetero_mtf.planning.profile.spread import median_and_spread
from tools.bench.baselines.equal_batches import DDP, NO_TORCH, Baselines
from tools.bench.baselines.rivals import least_ratio
from tools.bench.baselines.tasks import COMPARED, TITLES, Trained, compared_task
from tools.bench.comparison.measured import cluster_text
from tools.bench.comparison.options import limit_option, rounds_option, torch_option
from tools.bench.comparison.side_by_side import Pace, measure
from tools.results.output import Output, tables_option
from tools.results.publication import TableForm, shown, table_row
from tools.results.records import Column, Row

OURS = "this project"


def measured(network: str, share: float, limit: str, pace: Pace, torch_python: str | None) -> dict[str, Any]:
    """Return arrangement -> measured_s and the rounds it is the median of, on one device.

    Parameters
    ----------
    network : one of `COMPARED`.
    share : of a core.
    limit : what the share limits.
    torch_python : a Python with torch, or None to leave PyTorch out.
    """
    import hetero_mtf as hm

    task = compared_task(network)
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(hm.Cluster.emulate([share], limit=limit))
        plan = hm.Plan.single(task.model, 0, cluster, task.batch)
        baselines = Baselines(Trained.of(network, task.model), [share], task.batch, torch_python, limit, cluster.method)
        return {"batch": task.batch, "times": measure(task, {OURS: plan}, cluster, pace, baselines.start(stack))}


def rows(network: str, share: float, limit: str, case: dict[str, Any]) -> list[Row]:
    """Return a row an arrangement; what is wanted of PyTorch is a step that is not shorter, beyond the larger spread."""
    figures = {name: median_and_spread(entry["rounds_s"]) for name, entry in case["times"].items()}
    ours_s, _ = figures[OURS]
    table = []
    for name, (step_s, spread) in figures.items():
        cells = {
            "network": f"{TITLES[network]}, batch {case['batch']}",
            "cluster": cluster_text([share], limit),
            "arrangement": name,
            "step_ms": 1e3 * step_s,
            "times_ours": step_s / ours_s,
            "spread": spread,
        }
        wanted = round(least_ratio((step_s, spread), figures[OURS]), 2) if name == DDP else None
        table.append(table_row(cells, {"times_ours": wanted}))
    return table


TABLE = TableForm(
    "rivals_one_device",
    "One device here and elsewhere",
    (
        Column("network", "network"),
        Column("cluster", "device"),
        Column("arrangement", "arrangement"),
        Column("step_ms", "ms/step", ".0f"),
        Column("times_ours", "its step / ours", ".2f", "at_least"),
        Column("spread", "spread", ".2f"),
    ),
    case=("network", "cluster"),
)


@click.command(help=__doc__)
@click.option("--network", "names", multiple=True, type=click.Choice(COMPARED), help="One, several times for more.  [default: all]")
@click.option("--share", "shares", multiple=True, type=float, default=(1.0,), show_default=True, help="Share of a core, several times.")
@limit_option
@torch_option
@rounds_option(5)
@click.option("--steps", type=click.IntRange(1), default=2, show_default=True, help="Steps of each arrangement in one round.")
@tables_option
def main(
    names: Sequence[str],
    shares: Sequence[float],
    limit: str,
    torch_python: str | None,
    rounds: int,
    steps: int,
    output: Output,
) -> None:
    """Measure, and print the table."""
    notes = [NO_TORCH] if torch_python is None else []
    table: list[Row] = []
    for share in shares:
        for name in names or COMPARED:
            case = rows(name, share, limit, measured(name, share, limit, Pace(rounds, steps, 0.0, 0), torch_python))
            output.publish(TABLE, case, notes)
            table += case
    click.echo(shown(TABLE, table, notes))


if __name__ == "__main__":
    main()
