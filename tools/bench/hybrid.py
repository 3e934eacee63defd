"""Claim: samples split at the convolutions and units in the dense layers beat samples alone and filters alone.

An AlexNet-like network, whose convolutions hold the work and whose dense layers hold the weights, on emulated unequal devices; every
strategy plans its own unequal sizes from one calibration. All are open side by side and take turns; a figure is the median over rounds.
efficiency = ideal / measured, ideal = 1 / sum over devices of 1 / T_d, T_d the step of device d alone.

    python tools/bench/hybrid.py [--shares 1.0,0.5] [--batch 64] [--size 64] [--hidden 4096]

Krizhevsky, "One weird trick for parallelizing convolutional neural networks", arXiv 1404.5997, 2014, for equal devices.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import pathlib
import sys
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import click
import numpy as np

SPLITS = ("batch", "filters", "hybrid")


@dataclasses.dataclass(frozen=True)
class HybridCase:
    """What is measured.

    Parameters
    ----------
    shares : (devices,) share of a core of each.
    batch : samples per step.
    rounds, steps : rounds that count, and steps of each arrangement in one.
    budget_s : seconds for the calibration.
    """

    shares: list[float]
    batch: int
    rounds: int
    steps: int
    budget_s: float


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
        profile = hm.calibrate(cluster, model, batch_size=batch, optimizer=optimizer, budget_s=question.budget_s)
        planned = {name: hm.plan(profile, strategy=name) for name in SPLITS}
        automatic = hm.plan(profile)
        plans = {f"alone {d}": hm.Plan.single(model, device=d, cluster=cluster, batch_size=batch) for d in range(len(shares))}
        runs = {}
        for name, plan in {**plans, **planned}.items():
            trainer = stack.enter_context(hm.Trainer(model, plan, cluster, **settings))
            runs[name] = functools.partial(trainer.train_on_batch, x, y)
        times = interleaved(runs, rounds=question.rounds, steps=question.steps, warm_up=2)
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


def rows(figures: dict[str, Any]) -> list[list[Any]]:
    """Return a row an arrangement: milliseconds predicted and measured, and how many times as fast the hybrid is."""
    seconds, predicted = figures["seconds"], figures["predicted_s"]
    table = []
    for name, value in [*seconds.items(), ("ideal", figures["ideal_s"])]:
        guess = f"{1e3 * predicted[name]:.0f}" if name in predicted else "-"
        wanted = " (above 1)" if name in ("batch", "filters") else ""
        table.append([name, guess, f"{1e3 * value:.0f}", f"{figures['ideal_s'] / value:.2f}", f"{value / seconds['hybrid']:.2f}{wanted}"])
    return table


@click.command(help=__doc__)
@click.option("--shares", default="1.0,0.5", show_default=True, help="Share of a core of each emulated device.")
@click.option("--batch", default=64, show_default=True, help="Samples per step.")
@click.option("--size", default=64, show_default=True, help="Height and width of an image, pixels.")
@click.option("--hidden", default=4096, show_default=True, help="Units of each hidden dense layer.")
@click.option("--rounds", default=5, show_default=True, help="Rounds; a figure is their median.")
@click.option("--steps", default=2, show_default=True, help="Steps of each arrangement in one round.")
@click.option("--budget", default=120.0, show_default=True, help="Seconds that the calibration may take.")
@click.option("--json", "path", help="File to write the figures to.")
def main(shares: str, batch: int, size: int, hidden: int, rounds: int, steps: int, budget: float, path: str | None) -> None:
    """Run the comparison and print its table."""
    from models.alexnet import alexnet
    from tools.bench.comparison.measured import markdown, record

    question = HybridCase([float(s) for s in shares.split(",")], batch, rounds, steps, budget)
    figures = measure(alexnet(size, hidden=hidden), question)
    print(markdown(["arrangement", "predicted ms", "measured ms", "efficiency", "hybrid is x times as fast"], rows(figures)))
    print(f"\n{figures['weights']} weights, batch {batch}; auto takes {figures['automatic']}.")
    for name, layouts in figures["layouts"].items():
        print(f"{name}: {', '.join(f'{layer} {layout}' for layer, layout in layouts.items())}")
    record(path, " ".join(["python", *sys.argv]), figures)


if __name__ == "__main__":
    main()
