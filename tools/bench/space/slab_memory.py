"""Claim: two unequal devices train a volume in slabs that neither has memory for, in as much memory as predicted.

A 3-D U-Net trains one volume a step on emulated devices, by the first alone and in slabs. Measured is the high-water mark of a worker's
resident memory after some steps, less what it was when the worker had connected; predicted is what plans say. Then workers get a limit of
half of what one device needs, in control groups of their own, and the slabs of three devices are equal, as the limits are: by one device
the training ends with a worker killed, in slabs it goes on. All of it is done with workers as they are, and with workers of
`--memory-first`.

    python -m tools.bench.space.slab_memory [--shares 1.0,0.5] [--extent 96]
"""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import click

from hetero_mtf.devices.environment import MEMORY_FIRST
from hetero_mtf.errors import HeteroError
from tools.bench.comparison.options import shares_option
from tools.bench.comparison.plan_memory import predicted_bytes
from tools.bench.comparison.side_by_side import TrainingTask
from tools.bench.memory import CLAIMED_FROM, MB, OFF, connect, peaks
from tools.results.output import Cases, Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

FILTERS, STEPS = (16, 32, 64), 4
MOST_OF_SINGLE = 0.7
WORKERS = ("as they are", "memory first")
EQUAL_SLABS = 3  # two have no room: the runtime, and what TensorFlow's allocator leaves unused, are not halved
EQUAL_SHARE = 0.5  # of a core, of each of the devices with equal slabs
MEMORY_GROUPS = pathlib.Path("/sys/fs/cgroup/memory")
TABLE = TableForm(
    "slab_memory",
    "Peak memory of workers that train one volume a step",
    (
        Column("extent", "volume"),
        Column("workers", "workers"),
        Column("plan", "plan"),
        Column("device", "device"),
        Column("slab", "positions", ".0f"),
        Column("predicted_mb", "predicted MB", ".0f"),
        Column("measured_mb", "measured MB", ".0f"),
        Column("off", "off by", "+.0%", "within"),
        Column("of_single", "of one device's", ".2f", "at_most"),
        Column("limited", "with half of one device's memory"),
    ),
    case=("extent", "workers"),
)


def plan_of(name: str, task: TrainingTask, cluster: Any, shares: Sequence[float]) -> Any:
    """Return the plan "alone", "slabs" or "equal slabs"."""
    import hetero_mtf as hm

    if name == "alone":
        return hm.Plan.single(task.model, 0, cluster, task.batch)
    return hm.Plan.space(task.model, [1] * len(shares) if name == "equal slabs" else shares, cluster, task.batch)


def trained(
    name: str, task: TrainingTask, shares: Sequence[float], workers: str, limit_bytes: int | None = None
) -> list[dict[str, Any]]:
    """Return predicted and measured bytes of each device of a plan, after some steps.

    Parameters
    ----------
    name : as for `plan_of`.
    workers : of `WORKERS`.
    limit_bytes : of what each worker takes from when it has connected on; None for no limit.

    Raises
    ------
    HeteroError
        If a worker dies.
    """
    import hetero_mtf as hm
    from hetero_mtf.keras_reading.layer_graph import layer_graph
    from hetero_mtf.program.optimizer_reading import optimizer_spec

    with contextlib.ExitStack() as stack:
        with mock.patch.dict(os.environ, MEMORY_FIRST if workers == "memory first" else {}):  # which workers inherit
            cluster = stack.enter_context(hm.Cluster.emulate(shares))
        connect(cluster)
        before = peaks(cluster)
        for process in cluster.process_ids() if limit_bytes is not None else ():
            stack.enter_context(limited(process, limit_bytes))
        plan = plan_of(name, task, cluster, shares)
        with hm.Trainer(task.model, plan, cluster, **task.settings) as trainer:
            for _ in range(STEPS):
                trainer.train_on_batch(*task.data)
            trainer.wait()
            after = peaks(cluster)
        predicted = predicted_bytes(layer_graph(task.model), plan, cluster.record, optimizer_spec(task.settings["optimizer"]))
        slabs = plan.stages[0].layouts[0].slabs or (task.model.input_shape[1],)
    return [
        {"device": f"worker:{d}", "slab": slab, "predicted_bytes": guess, "measured_bytes": after[d] - before[d]}
        for (d, guess), slab in zip(sorted(predicted.items()), slabs)
    ]


@contextlib.contextmanager
def limited(process: int, most_bytes: int) -> Iterator[None]:
    """Limit what memory a process takes from now on by a control group of its own; at the end it goes back to that of this process."""
    group = MEMORY_GROUPS / f"slab_memory_{os.getpid()}_{process}"
    lines = pathlib.Path("/proc/self/cgroup").read_text().splitlines()
    own = MEMORY_GROUPS / next(line.split(":")[2] for line in lines if ":memory:" in line)[1:]
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(most_bytes))
        (group / "cgroup.procs").write_text(str(process))
        yield
    finally:
        with contextlib.suppress(OSError):  # it has ended
            (own / "cgroup.procs").write_text(str(process))
        for _ in range(50):
            with contextlib.suppress(OSError):
                group.rmdir()
                break


def measured(extent: int, shares: Sequence[float], workers: str) -> dict[str, Any]:
    """Return the bytes of both plans, and how they end with half of one device's memory.

    Parameters
    ----------
    extent : of the volume in each dimension.
    shares : (devices,) of a core.
    workers : of `WORKERS`.
    """
    from models.unet3d import unet3d

    task = TrainingTask(unet3d(extent, 1, 2, FILTERS), 1)
    devices = {name: trained(name, task, shares, workers) for name in ("alone", "slabs")}
    half = devices["alone"][0]["measured_bytes"] // 2
    ends = {}
    for name, plan, alike in (("alone", "alone", shares), ("slabs", "equal slabs", [EQUAL_SHARE] * EQUAL_SLABS)):
        try:
            parts = trained(plan, task, alike, workers, half)
            ends[name] = f"trains, {':'.join(str(part['slab']) for part in parts)}"
        except HeteroError as fault:
            ends[name] = f"ends: {fault.reason[:60]}"
    return {"extent": extent, "shares": list(shares), "workers": workers, "devices": devices, "half_bytes": half, "ends": ends}


def rows(case: dict[str, Any]) -> list[Row]:
    """Return a row a device of each plan."""
    table, single = [], case["devices"]["alone"][0]["measured_bytes"]
    for name, parts in case["devices"].items():
        for at, part in enumerate(parts):
            of_single = part["measured_bytes"] / single
            cells = {"extent": f"{case['extent']}^3", "workers": case["workers"], "plan": name, "device": part["device"]}
            cells |= {"slab": float(part["slab"])}
            figures = {"predicted_mb": part["predicted_bytes"] / MB, "measured_mb": part["measured_bytes"] / MB}
            off = part["predicted_bytes"] / part["measured_bytes"] - 1
            wanted = {"off": OFF if part["measured_bytes"] >= CLAIMED_FROM else None}
            wanted["of_single"] = MOST_OF_SINGLE if name == "slabs" and not at else None
            table.append(table_row({**cells, **figures, "off": off, "of_single": of_single, "limited": case["ends"][name]}, wanted))
    return table


@click.command(help=__doc__)
@shares_option
@click.option("--extent", default=96, show_default=True, help="Of the volume in each dimension.")
@output_options()
def main(shares: tuple[float, ...], extent: int, output: Output) -> None:
    """Measure, and print the table."""
    cases = Cases(output)
    done = [
        cases.measure(f"{extent}^3 on {shares}, workers {workers}", functools.partial(measured, extent, shares, workers))
        for workers in WORKERS
    ]
    halves = ", ".join(f"{case['half_bytes'] / MB:.0f} MB ({case['workers']})" for case in done)
    table = [row for case in done for row in rows(case)]
    output.report(TABLE, table, [f"The limit of a worker above what it takes when connected: {halves}."])


if __name__ == "__main__":
    main()
