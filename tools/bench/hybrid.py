"""Claim: samples split at the convolutions and units in the dense layers beat samples alone and filters alone.

An AlexNet-like network, whose convolutions hold the work and whose dense layers hold the weights, on emulated unequal devices; every
strategy plans its own unequal sizes from one calibration. All are open side by side and take turns; a figure is the median over rounds.
efficiency = ideal / measured, ideal = 1 / sum over devices of 1 / T_d, T_d the step of device d alone.

    python -m tools.bench.hybrid [--shares 1.0,0.5] [--batch 64] [--size 64] [--hidden 4096]

Krizhevsky, "One weird trick for parallelizing convolutional neural networks", arXiv 1404.5997, 2014, for equal devices.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from tools.bench.comparison.measured import arrangement_text, cluster_text
from tools.bench.comparison.options import pace_options, shares_option
from tools.bench.comparison.side_by_side import Pace
from tools.results.output import Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

SPLITS = ("batch", "filters", "hybrid")
TABLE = TableForm(
    "hybrid",
    "An AlexNet-like network split by samples, by filters and by both",
    (
        Column("cluster", "cluster"),
        Column("batch", "batch"),
        Column("arrangement", "arrangement"),
        Column("predicted_ms", "predicted ms", ".0f"),
        Column("measured_ms", "measured ms", ".0f"),
        Column("efficiency", "efficiency", ".2f"),
        Column("times_hybrid", "hybrid is x times as fast", ".2f", "at_least"),
    ),
    case=("cluster", "batch"),
)


@dataclasses.dataclass(frozen=True)
class HybridCase:
    """What is measured.

    Parameters
    ----------
    shares : (devices,) share of a core of each.
    batch : samples per step.
    pace : how long to measure.
    """

    shares: Sequence[float]
    batch: int
    pace: Pace


def measure(model: Any, question: HybridCase) -> dict[str, Any]:
    """Return the median seconds of every arrangement, the plans' predictions and sizes."""
    import keras

    import hetero_mtf as hm
    from hetero_mtf.training.timing import interleaved

    shares, batch = question.shares, question.batch
    optimizer = keras.optimizers.SGD(0.001, momentum=0.9)
    settings = {"optimizer": optimizer, "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(batch, *model.input_shape[1:])).astype("float32"), rng.integers(0, model.output_shape[-1], batch)
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(hm.Cluster.emulate(shares))
        profile = hm.calibrate(cluster, model, batch_size=batch, optimizer=optimizer, budget_s=question.pace.budget_s)
        planned = {name: hm.plan(profile, strategy=name) for name in SPLITS}
        automatic = hm.plan(profile)
        plans = {f"alone {d}": hm.Plan.single(model, device=d, cluster=cluster, batch_size=batch) for d in range(len(shares))}
        runs = {}
        for name, plan in {**plans, **planned}.items():
            trainer = stack.enter_context(hm.Trainer(model, plan, cluster, **settings))
            runs[name] = functools.partial(trainer.train_on_batch, x, y)
        times = interleaved(runs, rounds=question.pace.rounds, steps=question.pace.steps, warm_up=2)
    seconds = {name: float(np.median(values)) for name, values in times.items()}
    return {
        "shares": shares,
        "batch": batch,
        "weights": model.count_params(),
        "seconds": seconds,
        "rounds": times,
        "ideal_s": 1 / sum(1 / seconds[f"alone {d}"] for d in range(len(shares))),
        "predicted_s": {name: plan.predicted.step_s for name, plan in planned.items()},
        "automatic": automatic.strategy,
        "layouts": {name: describe(profile.graph, plan) for name, plan in planned.items()},
        "times_as_fast": {name: seconds[name] / seconds["hybrid"] for name in ("batch", "filters")},
    }


def describe(graph: Any, plan: Any) -> dict[str, str]:
    """Return layer name -> layout with its samples and sizes, of the layers that hold weights."""
    layouts = [layout for stage in plan.stages for layout in stage.layouts if graph.layers[layout.layer].variables]
    return {layout.name: " ".join([layout.layout, *_joined(layout.samples), *_joined(layout.sizes)]) for layout in layouts}


def _joined(numbers: tuple[int, ...]) -> list[str]:
    return [":".join(str(n) for n in numbers)] if numbers else []


def rows(figures: dict[str, Any]) -> list[Row]:
    """Return a row an arrangement: milliseconds predicted and measured, and how many times as fast the hybrid is."""
    case = {"cluster": cluster_text(figures["shares"]), "batch": figures["batch"]}
    hybrid_s, ideal_s = figures["seconds"]["hybrid"], figures["ideal_s"]
    table = []
    for name, seconds in [*figures["seconds"].items(), ("ideal", ideal_s)]:
        predicted_s = figures["predicted_s"].get(name)
        times = {"predicted_ms": predicted_s and 1e3 * predicted_s, "measured_ms": 1e3 * seconds}
        ratios = {"efficiency": ideal_s / seconds, "times_hybrid": seconds / hybrid_s}
        table.append(
            table_row(
                {**case, "arrangement": arrangement_text(name), **times, **ratios}, {"times_hybrid": 1.0 if name in SPLITS[:2] else None}
            )
        )
    return table


@click.command(help=__doc__)
@shares_option
@click.option("--batch", default=64, show_default=True, help="Samples per step.")
@click.option("--size", default=64, show_default=True, help="Height and width of an image, pixels.")
@click.option("--hidden", default=4096, show_default=True, help="Units of each hidden dense layer.")
@pace_options(5, 2, 120.0)
@output_options()
def main(shares: tuple[float, ...], batch: int, size: int, hidden: int, pace: Pace, output: Output) -> None:
    """Run the comparison and print its table."""
    from models.alexnet import alexnet

    question = HybridCase(shares, batch, pace)
    figures = measure(alexnet(size, hidden=hidden), question)
    notes = [f"{figures['weights']:,} weights; `auto` takes {figures['automatic']}."]
    output.report(TABLE, rows(figures), notes)
    for name, layouts in figures["layouts"].items():
        print(f"{name}: {', '.join(f'{layer} {layout}' for layer, layout in layouts.items())}")
    output.record(figures)


if __name__ == "__main__":
    main()
