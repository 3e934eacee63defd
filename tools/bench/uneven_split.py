"""Claim: unequal filter slices beat equal ones on unequal devices, and come near the ideal.

For each emulated cluster and batch size, the same network of 3x3 convolutions is trained alone on
each device, split equally by stock Mesh-TensorFlow (the baseline), split equally by this project,
and split as calibration and planning say. All are open side by side and take turns; a figure is the
median over rounds. efficiency = ideal / measured, ideal = 1 / sum over devices of 1 / T_d, T_d the
step of device d alone.

    python -m tools.bench.uneven_split [--shares 1.0,0.5] [--batch 16] [--filters 384,384,384,384]
    python -m tools.bench.uneven_split --paper-a [--batch 64]

The second form takes paper A's CIFAR network (Moreno-Alvarez et al. 2021; 4,116,420 weights in eight
convolutions without biases, 4.61 million in all) instead, without the stock baseline, which has
neither pools nor a hidden dense layer.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from typing import Any

import click
import numpy as np

from tools.bench.comparison.measured import shares_of
from tools.bench.comparison.networks import convolutions
from tools.bench.comparison.options import rounds_option
from tools.results.output import Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

Case = tuple[str, int]
DEFAULT_CASES: tuple[Case, ...] = (("1.0,0.5", 16), ("1.0,0.5", 32), ("1.0,0.33", 16))
TARGETS = {("1.0,0.5", 16): (1.35, 0.85), ("1.0,0.5", 32): (1.35, 0.90), ("1.0,0.33", 16): (1.7, 0.82)}


def run_case(case: Case, model: Any, filters: tuple[int, ...] | None, rounds: int) -> dict[str, Any]:
    """Return the median seconds of every arrangement, the plan and its prediction; `filters` None leaves out the stock baseline."""
    import keras

    import hetero_mtf as hm
    from hetero_mtf.training.timing import interleaved
    from tools.bench.comparison.stock_equal import StockEqual

    shares, batch = shares_of(case[0]), case[1]
    shape = model.input_shape[1:]
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(batch, *shape)).astype("float32"), rng.integers(0, 10, batch)
    settings = {"optimizer": keras.optimizers.SGD(0.01, momentum=0.9), "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
    with hm.Cluster.emulate(shares) as cluster:
        profile = hm.calibrate(cluster, model, batch_size=batch, optimizer=settings["optimizer"])
        planned, automatic = hm.plan(profile, strategy="filters"), hm.plan(profile)
        plans = {f"alone {d}": hm.Plan.single(model, device=d, cluster=cluster, batch_size=batch) for d in range(len(shares))}
        plans |= {"equal": hm.Plan.equal(model, cluster=cluster, batch_size=batch), "planned": planned}
        trainers = {name: hm.Trainer(model, plan, cluster, **settings) for name, plan in plans.items()}
        stock = [StockEqual(cluster, shape, filters, 10, batch)] if filters else []
        runs = {name: functools.partial(trainer.train_on_batch, x, y) for name, trainer in trainers.items()}
        if stock:
            runs["stock equal"] = functools.partial(stock[0].step, x, y)
        seconds = {name: float(np.median(times)) for name, times in interleaved(runs, rounds=rounds, steps=4, warm_up=3).items()}
        for ended in (*stock, *trainers.values()):
            ended.close()
    ideal = 1 / sum(1 / seconds[f"alone {d}"] for d in range(len(shares)))
    return {
        "shares": case[0],
        "batch": batch,
        "seconds": seconds,
        "ideal_s": ideal,
        "predicted_s": planned.predicted.step_s,
        "automatic": automatic.strategy,
        "sizes": [list(layout.sizes) for layout in planned.stages[0].layouts if layout.sizes],
        "efficiency": ideal / seconds["planned"],
        "times_as_fast_as_equal": seconds.get("stock equal", seconds["equal"]) / seconds["planned"],
        "times_as_fast_as_fastest_alone": min(seconds[f"alone {d}"] for d in range(len(shares))) / seconds["planned"],
    }


def row(case: dict[str, Any]) -> Row:
    """Return a case's row of the table, in milliseconds and ratios."""
    seconds = case["seconds"]
    speed, efficiency = TARGETS.get((case["shares"], case["batch"]), (None, None))
    times = {"stock_ms": seconds.get("stock equal"), "equal_ms": seconds["equal"], "predicted_ms": case["predicted_s"]}
    times |= {"planned_ms": seconds["planned"], "ideal_ms": case["ideal_s"]}
    ratios = {"times_equal": case["times_as_fast_as_equal"], "times_alone": case["times_as_fast_as_fastest_alone"]}
    return table_row(
        {
            "cluster": case["shares"],
            "batch": case["batch"],
            "alone_ms": [1e3 * value for name, value in seconds.items() if name.startswith("alone")],
            **{key: value and 1e3 * value for key, value in times.items()},
            **ratios,
            "efficiency": case["efficiency"],
        },
        {"times_equal": speed, "efficiency": efficiency},
    )


TABLE = TableForm(
    "uneven_split",
    "Unequal filter slices against equal ones",
    (
        Column("cluster", "cluster"),
        Column("batch", "batch"),
        Column("alone_ms", "each device alone ms", ".0f"),
        Column("stock_ms", "stock equal ms", ".0f"),
        Column("equal_ms", "our equal ms", ".0f"),
        Column("predicted_ms", "predicted ms", ".0f"),
        Column("planned_ms", "planned ms", ".0f"),
        Column("ideal_ms", "ideal ms", ".0f"),
        Column("times_equal", "x equal", ".2f", "at_least"),
        Column("times_alone", "x fastest alone", ".2f"),
        Column("efficiency", "efficiency", ".2f", "at_least"),
    ),
    case=("cluster", "batch"),
)
PAPER_A = dataclasses.replace(TABLE, name="uneven_split_paper_a", title="Unequal filter slices of paper A's CIFAR network")


@click.command(help=__doc__)
@click.option("--shares", help="One cluster, such as 1.0,0.5; default: the three cases of the claim.")
@click.option("--batch", default=16, show_default=True, help="Batch size with --shares.")
@click.option("--filters", default="384,384,384,384", show_default=True, help="Filters of each convolution; an even number of them.")
@click.option("--channels", default=384, show_default=True, help="Channels of the 8x8 input.")
@click.option("--paper-a", is_flag=True, help="Paper A's CIFAR network instead of plain convolutions.")
@rounds_option(7)
@output_options()
def main(shares: str | None, batch: int, filters: str, channels: int, paper_a: bool, rounds: int, output: Output) -> None:
    """Run the cases and print their table."""
    from models.paper_a import cifar

    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # stock Mesh-TensorFlow comments on every layer
    counts = None if paper_a else tuple(int(n) for n in filters.split(","))
    model = cifar() if counts is None else convolutions((8, 8, channels), counts, 10)
    cases = ((shares or "1.0,0.5", batch),) if shares or paper_a else DEFAULT_CASES
    form, records = PAPER_A if paper_a else TABLE, [run_case(case, model, counts, rounds) for case in cases]
    rows = [row(entry) for entry in records]
    output.report(form, rows)
    for entry in records:
        print(f"{entry['shares']}, batch {entry['batch']}: auto takes {entry['automatic']}; sizes of the split {entry['sizes']}")
    output.record({"cases": records})


if __name__ == "__main__":
    main()
