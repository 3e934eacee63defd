"""Claim: staged batches, buckets of gradients and merged synchronisations take from a step what is no computation.

Five networks on two and three unequal devices, samples split by shares. *before*: batches are fed with their step, each gradient and each
batch norm has a message of its own. *after*: as programs are built. Both are open side by side and take turns; steps are those of
`Trainer.fit` over eight batches, a figure is the median over rounds, *x* that of the ratios of a round. The parts are those of the traced
step of median length: communication only while nothing is computed, how much of it there was meanwhile, and apart from idle time what
passes before any device has begun, which is launching the step and feeding a batch that is not staged. Collecting the trace is left out.

    python -m tools.bench.step.exposed [--rounds 5] [--network "ResNet-18, batch 32"] [--shares 1.0,0.5]
"""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click
import numpy as np

from hetero_mtf.planning.profile.spread import median_and_spread
from tools.bench.comparison.measured import shares_of
from tools.bench.comparison.networks import NETWORKS
from tools.bench.comparison.options import rounds_option
from tools.bench.comparison.side_by_side import TrainingTask
from tools.bench.today.networks import SegmentationTask, unet3d
from tools.results.output import Output, tables_option
from tools.results.publication import TableForm, shown, table_row
from tools.results.records import Column, Row

BATCHES = 8
BEFORE, AFTER = "before", "after"
PARTS = ("compute", "communication", "idle", "overlapped")
TASKS: dict[str, Callable[[], TrainingTask]] = {
    "VGG-8, batch 32": lambda: TrainingTask(NETWORKS["vgg8"].make(), 32),
    "ResNet-18, batch 32": lambda: TrainingTask(NETWORKS["resnet18"].make(), 32),
    "AlexNet-like, batch 32": lambda: TrainingTask(NETWORKS["alexnet"].make(), 32),
    "3-D ResNet-10, batch 16": lambda: TrainingTask(NETWORKS["volume"].make(), 16),
    "3-D U-Net, batch 8": lambda: SegmentationTask(unet3d(), 8),
}


@contextlib.contextmanager
def as_before() -> Iterator[None]:
    """Make the programs that are built meanwhile feed batches with their step, and synchronise each batch norm by itself."""
    from hetero_mtf.program import builder, engine

    merged, staged = builder.synchronisation_groups, engine.staged_batches
    builder.synchronisation_groups, engine.staged_batches = lambda *_: (), lambda *_: None
    try:
        yield
    finally:
        builder.synchronisation_groups, engine.staged_batches = merged, staged


def rows(name: str, shares: Sequence[float], rounds: int) -> list[Row]:
    """Return a row before, and one after."""
    import hetero_mtf as hm

    task = TASKS[name]()
    (x, y), rates = task.drawn(BATCHES * task.batch), ",".join(f"{share:g}" for share in shares)
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(hm.Cluster.emulate(shares))
        plan = hm.Plan.batch(task.model, shares, cluster, task.batch)
        plans = {BEFORE: dataclasses.replace(plan, bucket_bytes=0), AFTER: plan}
        trainers = {when: stack.enter_context(hm.Trainer(task.model, each, cluster, **task.settings)) for when, each in plans.items()}
        for when, trainer in trainers.items():
            with as_before() if when == BEFORE else contextlib.nullcontext():
                trainer.fit(x[: 2 * task.batch], y[: 2 * task.batch], batch_size=task.batch, verbose=0)
        return [
            table_row({"network": name, "cluster": rates, "when": when, **figures})
            for when, figures in compared(trainers, task, x, y, rounds)
        ]


def compared(trainers: Mapping[str, Any], task: Any, x: np.ndarray, y: np.ndarray, rounds: int) -> list[tuple[str, dict[str, Any]]]:
    """Return the name and the figures of trainers that take turns at epochs of some batches: their steps, and the parts of a traced one.

    Parameters
    ----------
    trainers : name -> one that is built; ratios are to the first.
    task : what they train on, with its batch size.
    x, y : an epoch.
    """
    seconds: dict[str, list[float]] = {name: [] for name in trainers}
    for _ in range(rounds):
        for name, trainer in trainers.items():
            begun = time.perf_counter()
            trainer.fit(x, y, batch_size=task.batch, verbose=0)
            seconds[name].append((time.perf_counter() - begun) * task.batch / len(x))
    first = next(iter(seconds.values()))
    figures = []
    for name, trainer in trainers.items():
        step_s, spread = median_and_spread(seconds[name])
        ratio = statistics.median(each_s / first_s for each_s, first_s in zip(seconds[name], first))
        trace = _traced(trainer, x[: task.batch], y[: task.batch])
        parts = {part: [1e3 * getattr(each, f"{part}_s") for each in trace.parts] for part in PARTS}
        parts["idle"] = [max(0.0, idle_ms - 1e3 * (trace.launch_s + trace.collected_s)) for idle_ms in parts["idle"]]
        figures.append((name, {"step_ms": 1e3 * step_s, "spread": spread, "ratio": ratio, "launch": 1e3 * trace.launch_s, **parts}))
    return figures


def _traced(trainer: Any, x: np.ndarray, y: np.ndarray) -> Any:
    from hetero_mtf.training.timing import trace_median_step

    return trace_median_step(trainer, x, y)


STEP_COLUMNS = (
    Column("step_ms", "ms/step", ".0f"),
    Column("spread", "spread", ".2f"),
    Column("ratio", "x", ".2f"),
    Column("compute", "compute ms, each device", ".0f"),
    Column("communication", "exposed communication ms", ".0f"),
    Column("idle", "idle ms", ".0f"),
    Column("launch", "launch and feed ms", ".1f"),
    Column("overlapped", "communication during compute ms", ".0f"),
)
TABLE = TableForm(
    "exposed",
    "What a step loses besides compute",
    (
        Column("network", "network"),
        Column("cluster", "cluster"),
        Column("when", "when"),
        *STEP_COLUMNS,
    ),
    case=("network", "cluster"),
)


@click.command(help=__doc__)
@rounds_option(5)
@click.option("--network", "names", multiple=True, type=click.Choice(list(TASKS)), help="A network, or several.  [default: all]")
@click.option("--shares", "clusters", multiple=True, default=("1.0,0.5", "0.8,0.4,0.4"), show_default=True, help="Shares of devices.")
@tables_option
def main(rounds: int, names: tuple[str, ...], clusters: tuple[str, ...], output: Output) -> None:
    """Measure, print the table."""
    measured: list[Row] = []
    for shares in clusters:
        for name in names or TASKS:
            measured += rows(name, shares_of(shares), rounds)
            output.publish(TABLE, measured)
    print(shown(TABLE, measured))


if __name__ == "__main__":
    main()
