"""Claim: where layers wait for collectives, two halves of a batch at once take less time than the batch in one.

Filters are split by shares, so that a row layer ends in a sum that the next layer waits for. *one*: the batch in one. *two*: in two
halves, neither of which waits for the other (`Plan.in_two_batches`). Both are open side by side and take turns, by `Trainer.fit` over
eight batches; *predicted x* is the ratio of their predicted steps, by which `auto` chooses.

    python -m tools.bench.step.two_batches [--rounds 5] [--network vgg8] [--limit compute]
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import click

from hetero_mtf.devices.records import LIMITS
from tools.bench.comparison.measured import cluster_text
from tools.bench.comparison.networks import NETWORKS
from tools.bench.comparison.options import rounds_option
from tools.bench.comparison.side_by_side import TrainingTask
from tools.bench.step.exposed import BATCHES, STEP_COLUMNS, compared
from tools.results.output import Output, tables_option
from tools.results.publication import TableForm, shown, table_row
from tools.results.records import Column, Row

SHARES = [1.0, 0.5]
BUDGET_S = 40.0
ONE, TWO = "one", "two"


def dense() -> Any:
    """Return six dense layers of 2048 units."""
    import keras

    x = inputs = keras.Input((2048,))
    for _ in range(6):
        x = keras.layers.Dense(2048, activation="relu")(x)
    return keras.Model(inputs, keras.layers.Dense(10)(x))


TASKS: dict[str, tuple[str, Callable[[], TrainingTask]]] = {
    "vgg8": ("VGG-8, batch 32", lambda: TrainingTask(NETWORKS["vgg8"].make(), 32)),
    "alexnet": ("AlexNet-like, batch 64", lambda: TrainingTask(NETWORKS["alexnet"].make(), 64)),
    "dense": ("six dense layers of 2048, batch 256", lambda: TrainingTask(dense(), 256)),
}


def rows(key: str, limit: str, rounds: int) -> list[Row]:
    """Return a row for the batch in one, and one for two halves."""
    import hetero_mtf as hm
    from hetero_mtf.planning.cost.layer_cost import Costs
    from hetero_mtf.planning.pipeline.plan_prediction import predict_plan

    title, make = TASKS[key]
    task = make()
    x, y = task.drawn(BATCHES * task.batch)
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(hm.Cluster.emulate(SHARES, limit=limit))
        costs = Costs(hm.calibrate(cluster, task.model, task.batch, optimizer=task.settings["optimizer"], budget_s=BUDGET_S))
        plan = hm.Plan.filters(task.model, SHARES, cluster, task.batch)
        plans = {ONE: plan, TWO: plan.in_two_batches()}
        predicted_s = {name: predict_plan(costs, each).step_s for name, each in plans.items()}
        trainers = {name: stack.enter_context(hm.Trainer(task.model, each, cluster, **task.settings)) for name, each in plans.items()}
        for trainer in trainers.values():
            trainer.fit(x[: 2 * task.batch], y[: 2 * task.batch], batch_size=task.batch, verbose=0)
        head = {"network": title, "cluster": cluster_text(SHARES, limit), "hidden": min(link.hidden for link in costs.profile.links)}
        return [
            table_row({**head, "when": name, "predicted": predicted_s[name] / predicted_s[ONE], **figures})
            for name, figures in compared(trainers, task, x, y, rounds)
        ]


TABLE = TableForm(
    "two_batches",
    "Two halves of a batch at once",
    (
        Column("network", "network"),
        Column("cluster", "cluster"),
        Column("hidden", "part of a transfer that computing hides", ".2f"),
        Column("when", "the batch in"),
        Column("predicted", "predicted x", ".2f"),
        *STEP_COLUMNS,
    ),
    case=("network", "cluster"),
)


@click.command(help=__doc__)
@rounds_option(5)
@click.option("--network", "names", multiple=True, type=click.Choice(list(TASKS)), help="A network, or several.  [default: all]")
@click.option("--limit", "limits", multiple=True, type=click.Choice(LIMITS), default=LIMITS, show_default=True, help="What shares limit.")
@tables_option
def main(rounds: int, names: tuple[str, ...], limits: tuple[str, ...], output: Output) -> None:
    """Measure, print the table."""
    measured: list[Row] = []
    for limit in limits:
        for name in names or TASKS:
            measured += rows(name, limit, rounds)
            output.publish(TABLE, measured)
    print(shown(TABLE, measured))


if __name__ == "__main__":
    main()
