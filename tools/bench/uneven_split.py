"""Claim: unequal filter slices beat equal ones on unequal devices, and come near the ideal.

For each emulated cluster and batch size, the same network of 3x3 convolutions is trained alone on
each device, split equally by stock Mesh-TensorFlow (the baseline), split equally by this project,
and split as calibration and planning say. All are open side by side and take turns; a figure is the
median over rounds. efficiency = ideal / measured, ideal = 1 / sum over devices of 1 / T_d, T_d the
step of device d alone.

    python tools/bench/uneven_split.py [--shares 1.0,0.5] [--batch 16] [--filters 384,384,384,384]
"""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import click
import numpy as np

Case = tuple[str, int]
DEFAULT_CASES: tuple[Case, ...] = (("1.0,0.5", 16), ("1.0,0.5", 32), ("1.0,0.33", 16))
TARGETS = {("1.0,0.5", 16): (1.35, 0.85), ("1.0,0.5", 32): (1.35, 0.90), ("1.0,0.33", 16): (1.7, 0.82)}


def convolutions(shape: tuple[int, int, int], filters: tuple[int, ...], classes: int) -> Any:
    """Return same-padded 3x3 convolutions with relu, mean over space and a dense layer."""
    import keras

    x = inputs = keras.Input(shape)
    for count in filters:
        x = keras.layers.Conv2D(count, 3, padding="same", activation="relu", use_bias=False)(x)
    return keras.Model(inputs, keras.layers.Dense(classes)(keras.layers.GlobalAveragePooling2D()(x)))


def run_case(case: Case, shape: tuple[int, int, int], filters: tuple[int, ...], rounds: int) -> dict[str, Any]:
    """Return the median seconds of every arrangement, the plan and its prediction."""
    import keras
    from stock_equal import StockEqual

    import hetero_mtf as hm
    from hetero_mtf.training.timing import interleaved

    shares, batch = [float(s) for s in case[0].split(",")], case[1]
    model = convolutions(shape, filters, 10)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(batch, *shape)).astype("float32"), rng.integers(0, 10, batch)
    settings = {"optimizer": keras.optimizers.SGD(0.01, momentum=0.9), "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
    with hm.Cluster.emulate(shares) as cluster:
        profile = hm.calibrate(cluster, model, batch_size=batch, optimizer=settings["optimizer"])
        planned = hm.plan(profile, strategy="filters")
        plans = {f"alone {d}": hm.Plan.single(model, device=d, cluster=cluster, batch_size=batch) for d in range(len(shares))}
        plans |= {"equal": hm.Plan.even(model, cluster=cluster, batch_size=batch), "planned": planned}
        trainers = {name: hm.Trainer(model, plan, cluster, **settings) for name, plan in plans.items()}
        stock = StockEqual(cluster, shape, filters, 10, batch)
        runs = {"stock equal": functools.partial(stock.step, x, y)}
        runs |= {name: functools.partial(trainer.train_on_batch, x, y) for name, trainer in trainers.items()}
        seconds = {name: float(np.median(times)) for name, times in interleaved(runs, rounds=rounds, steps=4, warm_up=3).items()}
        for ended in (stock, *trainers.values()):
            ended.close()
    ideal = 1 / sum(1 / seconds[f"alone {d}"] for d in range(len(shares)))
    return {
        "shares": case[0],
        "batch": batch,
        "seconds": seconds,
        "ideal_s": ideal,
        "predicted_s": planned.predicted.step_s,
        "sizes": [list(layout.sizes) for layout in planned.stages[0].layouts if layout.sizes],
        "efficiency": ideal / seconds["planned"],
        "times_as_fast_as_stock_equal": seconds["stock equal"] / seconds["planned"],
        "times_as_fast_as_fastest_alone": min(seconds[f"alone {d}"] for d in range(len(shares))) / seconds["planned"],
    }


def row(found: dict[str, Any]) -> list[Any]:
    """Return a case's row of the table, in milliseconds and ratios."""
    seconds = found["seconds"]
    alone = [value for name, value in seconds.items() if name.startswith("alone")]
    speed, efficiency = TARGETS.get((found["shares"], found["batch"]), ("-", "-"))
    times = [*alone, seconds["stock equal"], seconds["equal"], found["predicted_s"], seconds["planned"], found["ideal_s"]]
    ratios = [f"{found[key]:.2f}" for key in ("times_as_fast_as_stock_equal", "times_as_fast_as_fastest_alone", "efficiency")]
    return [
        found["shares"],
        found["batch"],
        *(f"{1e3 * t:.0f}" for t in times),
        f"{ratios[0]} ({speed})",
        ratios[1],
        f"{ratios[2]} ({efficiency})",
    ]


COLUMNS = (
    "shares",
    "batch",
    "fast alone ms",
    "slow alone ms",
    "stock equal ms",
    "our equal ms",
    "predicted ms",
    "planned ms",
    "ideal ms",
    "x stock equal (wanted)",
    "x fast alone",
    "efficiency (wanted)",
)


@click.command(help=__doc__)
@click.option("--shares", help="One cluster, such as 1.0,0.5; default: the three cases of the claim.")
@click.option("--batch", default=16, show_default=True, help="Batch size with --shares.")
@click.option("--filters", default="384,384,384,384", show_default=True, help="Filters of each convolution; an even number of them.")
@click.option("--channels", default=384, show_default=True, help="Channels of the 8x8 input.")
@click.option("--rounds", default=7, show_default=True, help="Rounds; a figure is their median.")
@click.option("--json", "path", help="File to write the figures to.")
def main(shares: str | None, batch: int, filters: str, channels: int, rounds: int, path: str | None) -> None:
    """Run the cases and print their table."""
    from measured import markdown, record

    counts = tuple(int(n) for n in filters.split(","))
    cases = ((shares, batch),) if shares else DEFAULT_CASES
    found = [run_case(case, (8, 8, channels), counts, rounds) for case in cases]
    print(markdown(COLUMNS, [row(entry) for entry in found]))
    for entry in found:
        print(f"sizes at {entry['shares']}, batch {entry['batch']}: {entry['sizes']}")
    record(path, " ".join(["python", *sys.argv]), {"cases": found})


if __name__ == "__main__":
    main()
