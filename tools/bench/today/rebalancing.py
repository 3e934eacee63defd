"""Claim: a training whose device is throttled moves once, within 50 steps and 30 s, and is as fast as one planned for it.

Four convolutions of 256 filters on 8x8 images, batch 32, on two emulated devices with 0.8 of a core each; one is throttled to 0.32.
*throttled*: the trainer chooses its plan before the first step, trains, and moves; then its steps and those of a trainer that has chosen
its plan on devices of 0.8 and 0.32 take turns, the figures are medians over rounds, and its speed is at least 0.95 of the other's.
*steady*: 500 steps that nothing disturbs. *60 steps*: weights in float64 with Adam, after a throttle and a move, beside those of a
training that nothing disturbs: the largest of max|a-b| / (max|a| + 1e-3) over tensors. Traces: what traced steps take beyond the usual
step, as a part of all steps.

    python -m tools.bench.today.rebalancing [--steady-steps 500] [--rounds 7]
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import click
import numpy as np

from hetero_mtf.planning.profile.spread import median_and_spread
from tools.results.output import Output, tables_option
from tools.results.publication import TableForm, shown, table_row
from tools.results.records import Column, Row

SHARES, SLOW_SHARE, SLOW = (0.8, 0.8), 0.32, 1
BATCH, CHANNELS, FILTERS, CONVOLUTIONS = 32, 64, 256, 4
BEFORE, AFTER = 60, 100  # steps before the throttle and after it
THROTTLED_AT = 25  # of the steps whose weights are compared
LEAST_SPEED, MOST_STEPS, MOST_S, MOST_TRACES, MOST_ERROR = 0.95, 50.0, 30.0, 0.01, 1e-8


def batch(dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    """Return one random batch."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(BATCH, 8, 8, CHANNELS)).astype(dtype), rng.integers(0, 10, BATCH)


def network(dtype: str = "float32") -> tuple[Any, Any]:
    """Return the model and its loss."""
    import keras

    keras.config.set_floatx(dtype)
    keras.config.set_dtype_policy(dtype)  # which is kept once it was asked for
    keras.utils.set_random_seed(0)
    image = features = keras.Input((8, 8, CHANNELS))
    for _ in range(CONVOLUTIONS):
        features = keras.layers.Conv2D(FILTERS, 3, padding="same", activation="relu")(features)
    logits = keras.layers.Dense(10)(keras.layers.GlobalAveragePooling2D()(features))
    return keras.Model(image, logits), keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def trained(trainer: Any, cluster: Any, steps: int, throttle_at: int | None, dtype: str = "float32") -> list[float]:
    """Train by `fit` and return when each step ended, in seconds from the throttle on.

    Parameters
    ----------
    throttle_at : steps before a device is throttled; None for never.
    """
    import keras

    x, y = batch(dtype)
    ended_s: list[float] = []
    throttled_s = [0.0]

    class Throttle(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            ended_s.append(time.perf_counter())
            if len(ended_s) == throttle_at:
                cluster.set_share(SLOW, SLOW_SHARE)
                throttled_s[0] = time.perf_counter()

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        while True:
            yield x, y

    trainer.fit(batches(), steps_per_epoch=steps, epochs=1, verbose=2, callbacks=[Throttle()])
    return [moment_s - throttled_s[0] for moment_s in ended_s]


def chosen(cluster: Any, stack: contextlib.ExitStack, rebalance: bool | None = None) -> Any:
    """Return a trainer that has chosen its plan on a cluster."""
    import keras

    import hetero_mtf as hm

    model, loss = network()
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    trainer = stack.enter_context(hm.Trainer(model, cluster=cluster, optimizer=optimizer, loss=loss, measure="first", rebalance=rebalance))
    trainer.prepare(BATCH)
    return trainer


def mean_s(trainer: Any, steps: int = 5) -> float:
    """Return the mean seconds of some steps."""
    x, y = batch()
    begun_s = time.perf_counter()
    for _ in range(steps):
        trainer.train_on_batch(x, y)
    return (time.perf_counter() - begun_s) / steps


def throttled(rounds: int) -> Row:
    """Return the row of a training whose device is throttled."""
    import hetero_mtf as hm

    with contextlib.ExitStack() as stack:
        cluster, other = (stack.enter_context(hm.Cluster.emulate(shares)) for shares in (SHARES, (SHARES[0], SLOW_SHARE)))
        planned = chosen(other, stack, rebalance=False)
        trainer = chosen(cluster, stack)
        ended_s = trained(trainer, cluster, BEFORE + AFTER, BEFORE)
        moves = trainer.moves
        seconds: dict[Any, list[float]] = {trainer: [], planned: []}
        mean_s(planned)
        for _ in range(rounds):
            for each, measured in seconds.items():
                measured.append(mean_s(each))
        (own_s, spread), (planned_s, _) = (median_and_spread(measured) for measured in seconds.values())
        figures = {"moves": len(moves), "own_ms": 1e3 * own_s, "spread": spread, "planned_ms": 1e3 * planned_s, "speed": planned_s / own_s}
        if moves:
            index = moves[0].step  # of the first step under the new plan
            figures |= {"slowed_ms": 1e3 * moves[0].before_s, "steps": index + 1 - BEFORE, "seconds": ended_s[index]}
        figures["traces"] = traces(trainer)
        wanted = {"moves": 1, "steps": MOST_STEPS, "seconds": MOST_S, "speed": LEAST_SPEED}
        return table_row({"case": "throttled", **figures}, wanted)


def steady(steps: int) -> Row:
    """Return the row of a training that nothing disturbs."""
    import hetero_mtf as hm

    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(hm.Cluster.emulate(SHARES))
        trainer = chosen(cluster, stack)
        trained(trainer, cluster, steps, None)
        return table_row({"case": "steady", "moves": len(trainer.moves), "traces": traces(trainer)}, {"moves": 0, "traces": MOST_TRACES})


def traces(trainer: Any) -> float:
    """Return the seconds that traces took, as a part of all steps."""
    budget = trainer.controller.devices.budget
    return float(budget.spent_s / budget.run_s)


def equal_weights(steps: int = 60) -> Row:
    """Return the row of weights after a move, beside those of a training that nothing disturbs."""
    import keras

    import hetero_mtf as hm

    model, loss = network("float64")
    weights, moves = [], []
    with hm.Cluster.emulate(SHARES) as cluster:
        profile = hm.calibrate(cluster, model, BATCH, optimizer=keras.optimizers.Adam(), verbose=0)
        plan = hm.plan(profile, strategy="batch")  # one device alone has no other to be throttled
        for disturbed in (False, True):
            options: dict[str, Any] = {"optimizer": keras.optimizers.Adam(0.001), "loss": loss, "profile": profile}
            with hm.Trainer(model, plan, cluster, rebalance=disturbed, **options) as trainer:
                trained(trainer, cluster, steps, THROTTLED_AT if disturbed else None, "float64")
                weights.append(trainer.to_keras().get_weights())
                moves.append(len(trainer.moves))
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
    error = max(float(np.abs(a - b).max() / (np.abs(a).max() + 1e-3)) for a, b in zip(*weights))
    figures = {"moves": moves[1], "error": error if moves[1] else None}  # without a move there is nothing to compare
    return table_row({"case": f"{steps} steps", **figures}, {"moves": 1, "error": MOST_ERROR})


CASES = {"throttled": throttled, "steady": steady, "weights": equal_weights}
TABLE = TableForm(
    "rebalancing",
    "A device that is throttled in mid-training",
    (
        Column("case", "case"),
        Column("moves", "moves", ".0f", "at_most"),
        Column("steps", "steps until moved", ".0f", "at_most"),
        Column("seconds", "seconds until moved", ".1f", "at_most"),
        Column("slowed_ms", "ms/step before", ".0f"),
        Column("own_ms", "ms/step after", ".0f"),
        Column("spread", "spread", ".2f"),
        Column("planned_ms", "ms/step planned for it", ".0f"),
        Column("speed", "relative speed", ".2f", "at_least"),
        Column("traces", "traces", ".4f", "at_most"),
        Column("error", "error of weights", ".1e", "at_most"),
    ),
    case=("case",),
)


@click.command(help=__doc__)
@click.option("--steady-steps", default=500, show_default=True, help="Steps that nothing disturbs.")
@click.option("--rounds", default=7, show_default=True, help="Rounds of turns after the move.")
@click.option("--case", "cases", multiple=True, type=click.Choice(list(CASES)), help="A case, several times for more.  [default: all]")
@tables_option
def main(steady_steps: int, rounds: int, cases: tuple[str, ...], output: Output) -> None:
    """Measure, print the table."""
    given = {"throttled": (rounds,), "steady": (steady_steps,), "weights": ()}
    measured = []
    with tempfile.TemporaryDirectory(prefix="hetero_mtf-rebalancing-") as folder:
        os.environ["HETERO_MTF_CACHE"] = folder
        for name in cases or CASES:
            measured.append(CASES[name](*given[name]))
            print(shown(TABLE, measured[-1:]), flush=True)
    output.report(TABLE, measured)


if __name__ == "__main__":
    main()
