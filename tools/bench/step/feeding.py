"""Claim: batches of 14 MB cost a step at most 5 ms, on two unequal devices.

A network of six strided convolutions, batches of 32 images of 192x192x3. Five ways of getting them to emulated devices of 1.0 and 0.5
cores are open side by side and take turns, each with the same plan, samples split: resident (every device holds its part, nothing is
fed); staged (`Trainer.fit`: shuffled from an array, written into shared memory while the step before runs); the same from images of
uint8; sent (to each server its part while the step before runs, as to servers on other hosts); and fed through placeholders with the
step, as all were before. A figure is the median over rounds of a mean step of two epochs of 24 batches.

    python -m tools.bench.step.feeding [--rounds 5]
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import click
import numpy as np

from hetero_mtf.planning.profile.spread import median_and_spread
from tools.bench.comparison.options import rounds_option
from tools.results.output import Output, tables_option
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

SHAPE, BATCH, BATCHES, EPOCHS = (192, 192, 3), 32, 24, 2
SHARES = (1.0, 0.5)
RESIDENT, STAGED, STAGED_UINT8, SENT, FED = "resident", "staged", "staged, uint8", "sent", "fed with the step"
AT_MOST_MS = 5.0


def network() -> Any:
    """Return the network."""
    import keras

    keras.utils.set_random_seed(0)
    x = inputs = keras.Input(SHAPE)
    for filters, stride in ((32, 4), (64, 2), (64, 1), (128, 2), (128, 1), (256, 2)):
        x = keras.layers.Conv2D(filters, 3, stride, padding="same", activation="relu")(x)
    return keras.Model(inputs, keras.layers.Dense(10)(keras.layers.GlobalAveragePooling2D()(x)))


@contextlib.contextmanager
def built_by(choice: Callable[..., Any]) -> Iterator[None]:
    """Make the programs that are built meanwhile get their batches as a function chooses.

    Parameters
    ----------
    choice : as `staged_batches`.
    """
    from hetero_mtf.program import engine

    usual, engine.staged_batches = engine.staged_batches, choice
    try:
        yield
    finally:
        engine.staged_batches = usual


@contextlib.contextmanager
def resident_parts(kept: list[Any]) -> Iterator[None]:
    """Make the programs that are built meanwhile read variables on devices.

    Parameters
    ----------
    kept : gets (variable, what fills it) of each part.
    """
    import tensorflow as tf

    from hetero_mtf.program.feeding.shared_batches import SharedBatches

    part_of = SharedBatches._part

    def resident(self: SharedBatches, number: int, device: str, begins: Any, extents: Any, dtype: Any) -> Any:
        part = part_of(self, number, device, begins, extents, dtype)
        handle = tf.raw_ops.VarHandleOp(dtype=dtype, shape=list(extents), container=self._container, shared_name=f"{part.op.name}/kept")
        kept.append(tf.raw_ops.AssignVariableOp(resource=handle, value=part + 0))
        return tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)

    SharedBatches._part = resident  # type: ignore[method-assign]
    try:
        yield
    finally:
        SharedBatches._part = part_of  # type: ignore[method-assign]


def resident_step(trainer: Any, x: np.ndarray, y: np.ndarray) -> Callable[[], float]:
    """Return what takes an epoch of steps whose batch lies on the devices, and returns the seconds of a step."""
    from hetero_mtf.data.checked_batch import Batch

    kept: list[Any] = []
    batch = trainer._run.feed(Batch(x[:BATCH], y[:BATCH], None))
    with resident_parts(kept):
        trainer._run.engine.build(batch)
    program = next(iter(trainer._run.engine._programs.values()))
    program.staged.use(batch, [*batch.x, batch.y[0], batch.weight[0]])
    trainer._run.engine._run(kept, {})

    def run() -> float:
        begun = time.perf_counter()
        for step in range(EPOCHS * BATCHES):
            trainer._run.engine.train(batch, step, trainer._run.scalars(), False)
        return (time.perf_counter() - begun) / (EPOCHS * BATCHES)

    return run


def fit_step(trainer: Any, x: np.ndarray, y: np.ndarray) -> Callable[[], float]:
    """Return what trains for an epoch, and returns the seconds of a step."""
    trainer.fit(x[:BATCH], y[:BATCH], verbose=0)  # builds

    def run() -> float:
        begun = time.perf_counter()
        trainer.fit(x, y, epochs=EPOCHS, verbose=0)
        return (time.perf_counter() - begun) / (EPOCHS * BATCHES)

    return run


def _large(container: str, forms: Any, dtypes: Any) -> tuple[Any, ...]:
    """Return arguments of `SentBatches` by which only samples are sent."""
    return container, [forms[0], *(None for _ in forms[1:])], dtypes


def rows(rounds: int) -> list[Row]:
    """Return a row for each."""
    import keras

    import hetero_mtf as hm
    from hetero_mtf.program.feeding.sent_batches import SentBatches

    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (BATCH * BATCHES, *SHAPE), dtype=np.uint8)
    x, y = (images / 255).astype("float32"), rng.integers(0, 10, len(images))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(hm.Cluster.emulate(SHARES))
        model = network()
        plan = hm.Plan.batch(model, SHARES, cluster, BATCH)
        trainers = {
            name: stack.enter_context(hm.Trainer(model, plan, cluster, optimizer=keras.optimizers.SGD(1e-4), loss=loss))
            for name in (RESIDENT, STAGED, STAGED_UINT8, SENT, FED)
        }
        epochs = {RESIDENT: resident_step(trainers[RESIDENT], x, y)}
        epochs |= {STAGED: fit_step(trainers[STAGED], x, y), STAGED_UINT8: fit_step(trainers[STAGED_UINT8], images, y)}
        with built_by(lambda _, *arguments: SentBatches(cluster, *_large(*arguments))):
            epochs[SENT] = fit_step(trainers[SENT], x, y)
        with built_by(lambda *_: None):
            epochs[FED] = fit_step(trainers[FED], x, y)
        seconds: dict[str, list[float]] = {name: [] for name in epochs}
        for _ in range(rounds):
            for name, epoch in epochs.items():
                seconds[name].append(epoch())
    resident_s = median_and_spread(seconds[RESIDENT])[0]
    lines = []
    for name, measured in seconds.items():
        step_s, spread = median_and_spread(measured)
        megabytes = 0.0 if name == RESIDENT else (images if name == STAGED_UINT8 else x)[:BATCH].nbytes / 1e6
        more_ms = 1e3 * (step_s - resident_s)
        figures = {"feeding": name, "megabytes": megabytes, "step_ms": 1e3 * step_s, "spread": spread, "more_ms": more_ms}
        lines.append(table_row(figures, {"more_ms": AT_MOST_MS if name in (STAGED, STAGED_UINT8) else None}))
    return lines


TABLE = TableForm(
    "feeding",
    "What feeding costs a step",
    (
        Column("feeding", "batches are"),
        Column("megabytes", "MB a batch", ".1f"),
        Column("step_ms", "ms/step", ".1f"),
        Column("spread", "spread", ".2f"),
        Column("more_ms", "ms more than resident", ".1f", "at_most"),
    ),
    case=("feeding",),
)


@click.command(help=__doc__)
@rounds_option(5)
@tables_option
def main(rounds: int, output: Output) -> None:
    """Measure, print the table."""
    measured = rows(rounds)
    output.report(TABLE, measured)


if __name__ == "__main__":
    main()
