"""Claim: one device through the Trainer takes no longer than Keras's `fit` in any precision; which precision is fast depends on the device.

The wide network for 8x8 digits, batch 64, on the CPU of this machine. All policies are open side by side and take turns, Keras's
`train_on_batch` after the Trainer's; a figure is the median over rounds of a mean step.

    python -m tools.bench.today.precision_speed [--rounds 5]
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np

from hetero_mtf.planning.profile.spread import median_and_spread
from tools.bench.comparison.options import rounds_option
from tools.results.output import Output, tables_option
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

PLAIN = "float32"
POLICIES = (PLAIN, "mixed_bfloat16", "mixed_float16")
BATCH, STEPS = 64, 3


def steps(policy: str, cluster: Any, stack: contextlib.ExitStack) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return what takes a step of a policy here, and what takes one in Keras.

    Parameters
    ----------
    cluster : live cluster of one device.
    stack : closes the trainer.
    """
    import keras
    from hetero_mtf.models.digits import wide_digits

    import hetero_mtf as hm

    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy(policy)
    model, own = wide_digits(), wide_digits()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    own.compile("sgd", loss)
    keras.config.set_dtype_policy(PLAIN)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(BATCH, 8, 8, 1)).astype("float32"), rng.integers(0, 10, BATCH)
    plan = hm.Plan.single(model, 0, cluster, BATCH)
    trainer = stack.enter_context(hm.Trainer(model, plan, cluster, optimizer="sgd", loss=loss))
    return lambda: trainer.train_on_batch(x, y), lambda: own.train_on_batch(x, y)


def mean_s(step: Callable[[], Any]) -> float:
    """Return the mean seconds of some steps."""
    begun = time.perf_counter()
    for _ in range(STEPS):
        step()
    return (time.perf_counter() - begun) / STEPS


def rows(rounds: int) -> list[Row]:
    """Return a row for each policy."""
    import hetero_mtf as hm

    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(hm.Cluster.local(["cpu:0"]))
        taken = {policy: steps(policy, cluster, stack) for policy in POLICIES}
        for pair in taken.values():
            for step in (*pair, *pair):
                step()  # the first builds
        seconds: dict[tuple[str, int], list[float]] = {(policy, at): [] for policy in POLICIES for at in (0, 1)}
        for _ in range(rounds):
            for (policy, at), measured in seconds.items():
                measured.append(mean_s(taken[policy][at]))
    lines, plain_s = [], median_and_spread(seconds[PLAIN, 0])[0]
    for policy in POLICIES:
        (own_s, spread), (keras_s, _) = (median_and_spread(seconds[policy, at]) for at in (0, 1))
        figures = {"trainer_ms": 1e3 * own_s, "spread": spread, "keras_ms": 1e3 * keras_s}
        lines.append(table_row({"policy": policy, **figures, "times_keras": own_s / keras_s, "times_plain": own_s / plain_s}))
    return lines


TABLE = TableForm(
    "precision_speed",
    "Steps in mixed precision",
    (
        Column("policy", "policy"),
        Column("trainer_ms", "Trainer ms/step", ".0f"),
        Column("spread", "spread", ".2f"),
        Column("keras_ms", "Keras ms/step", ".0f"),
        Column("times_keras", "relative to Keras", ".2f"),
        Column("times_plain", "relative to float32", ".2f"),
    ),
    case=("policy",),
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
