"""Claim: batches split by measured speed beat equal batches on unequal devices, those of other libraries included.

ResNet-18 on 32x32 images, SGD with momentum, the same global batch everywhere, on emulated devices. The baselines are
tf.distribute.MultiWorkerMirroredStrategy and, where a Python with torch is named, PyTorch's DistributedDataParallel over gloo: a
process a device with an equal part of the batch, on the same cores under the same limits. Everything is open side by side and takes
turns; a figure is the median over rounds. efficiency = ideal / measured, ideal = 1 / sum over devices of 1 / T_d, T_d the step of
device d alone.

    python -m tools.bench.uneven_batch [--shares 1.0,0.5] [--batch 64] [--torch-python ~/torch-env/bin/python]
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from tools.bench.baselines.equal_batches import DDP, MIRRORED, NO_TORCH, Baselines
from tools.bench.baselines.tasks import Trained
from tools.bench.comparison.measured import arrangement_text, cluster_text
from tools.bench.comparison.options import pace_options, shares_option, torch_option
from tools.bench.comparison.side_by_side import Pace
from tools.results.output import Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

WANTED = 1.35
TABLE = TableForm(
    "uneven_batch",
    "Uneven batches of ResNet-18 against other libraries' equal batches",
    (
        Column("cluster", "cluster"),
        Column("arrangement", "arrangement"),
        Column("batch", "samples"),
        Column("predicted_ms", "predicted ms/step", ".0f"),
        Column("measured_ms", "ms/step", ".0f"),
        Column("samples_per_s", "samples/s", ".1f"),
        Column("times_planned", "planned is x times as fast", ".2f", "at_least"),
    ),
    case=("cluster",),
)


@dataclasses.dataclass(frozen=True)
class BatchCase:
    """What is measured.

    Parameters
    ----------
    shares : (devices,) share of a core of each.
    batch : samples per step of all devices together.
    torch_python : a Python with torch, or None to leave PyTorch out.
    pace : how long to measure.
    """

    shares: Sequence[float]
    batch: int
    torch_python: str | None
    pace: Pace


def measure(question: BatchCase) -> dict[str, Any]:
    """Return the median seconds of every arrangement, the plan and its prediction."""
    import keras

    import hetero_mtf as hm
    from hetero_mtf.training.timing import interleaved
    from models.residual import resnet18

    model, optimizer = resnet18(), keras.optimizers.SGD(0.01, momentum=0.9)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(question.batch, *model.input_shape[1:])).astype("float32"), rng.integers(0, 10, question.batch)
    settings = {"optimizer": optimizer, "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
    count, trained = len(question.shares), Trained.of("resnet18", model)
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(hm.Cluster.emulate(question.shares))
        runs = Baselines(trained, question.shares, question.batch, question.torch_python, method=cluster.method).start(stack)
        profile = hm.calibrate(cluster, model, batch_size=question.batch, optimizer=optimizer, budget_s=question.pace.budget_s)
        planned, automatic = hm.plan(profile, strategy="batch"), hm.plan(profile)
        plans = {f"alone {d}": hm.Plan.single(model, device=d, cluster=cluster, batch_size=question.batch) for d in range(count)}
        plans |= {"equal": hm.Plan.batch(model, [1.0] * count, cluster, question.batch), "planned": planned}
        for name, plan in plans.items():
            trainer = stack.enter_context(hm.Trainer(model, plan, cluster, **settings))
            runs[name] = functools.partial(trainer.train_on_batch, x, y)
        times = interleaved(runs, rounds=question.pace.rounds, steps=question.pace.steps, warm_up=2)
    seconds = {name: float(np.median(values)) for name, values in times.items()}
    ideal = 1 / sum(1 / seconds[f"alone {d}"] for d in range(count))
    return {
        "shares": question.shares,
        "batch": question.batch,
        "seconds": seconds,
        "rounds": times,
        "ideal_s": ideal,
        "predicted_s": planned.predicted.step_s,
        "automatic": automatic.strategy,
        "samples": list(next(layout.samples for layout in planned.stages[0].layouts if layout.samples)),
        "efficiency": ideal / seconds["planned"],
        "times_as_fast": {name: seconds[name] / seconds["planned"] for name in (MIRRORED, DDP, "equal") if name in seconds},
    }


def rows(figures: dict[str, Any]) -> list[Row]:
    """Return a row an arrangement: ms/step, samples/s, and how many times as fast the plan is."""
    cluster, planned_s = cluster_text(figures["shares"]), figures["seconds"]["planned"]
    table = []
    for name, seconds in [*figures["seconds"].items(), ("ideal", figures["ideal_s"])]:
        planned = name == "planned"
        samples = ":".join(map(str, figures["samples"])) if planned else figures["batch"]
        times = {"predicted_ms": 1e3 * figures["predicted_s"] if planned else None, "measured_ms": 1e3 * seconds}
        ratios = {"samples_per_s": figures["batch"] / seconds, "times_planned": seconds / planned_s}
        wanted = {"times_planned": WANTED if name in (MIRRORED, DDP) else None}
        table.append(
            table_row(
                {
                    "cluster": cluster,
                    "arrangement": "our equal batches" if name == "equal" else arrangement_text(name),
                    "batch": samples,
                    **times,
                    **ratios,
                },
                wanted,
            )
        )
    return table


@click.command(help=__doc__)
@shares_option
@click.option("--batch", default=64, show_default=True, help="Samples per step of all devices together.")
@torch_option
@pace_options(7, 1, 120.0)
@output_options()
def main(shares: tuple[float, ...], batch: int, torch_python: str | None, pace: Pace, output: Output) -> None:
    """Run the comparison and print its table."""
    figures = measure(BatchCase(shares, batch, torch_python, pace))
    notes = [f"`auto` takes {figures['automatic']}."]
    if torch_python is None:
        notes.append(NO_TORCH)
    output.report(TABLE, rows(figures), notes)
    output.record(figures)


if __name__ == "__main__":
    main()
