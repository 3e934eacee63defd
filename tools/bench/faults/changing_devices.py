"""Claim: over two changes of devices the losses are those of an undisturbed training, and the same plan gives them bit for bit.

The experiment of EasyScale (SC 2023): 100 batches on four equal devices, 100 on two of them, and 100 on one of them and two slower
ones. Here they are six emulated devices of 0.3 and 0.15 of a core; those that are not to be used are stopped, and continued. A network
with batch normalization and dropout is trained in float64 by `Trainer`, by a profile of all six that is measured first. The loss of each
batch is compared with that of one device, and an undisturbed training on four devices with itself, run twice.

    python -m tools.bench.faults.changing_devices [--json changing_devices.json]
"""

from __future__ import annotations

import os
import signal
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click
import keras
import numpy as np

import hetero_mtf as hm
from hetero_mtf.training.control.text import split_text
from tools.results.output import Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

SHARES = (0.3, 0.3, 0.3, 0.3, 0.15, 0.15)
STAGES = ((0, 1, 2, 3), (0, 1), (0, 4, 5))  # workers that are to be used
BATCH, STEPS = 32, 100  # of a stage
TIMEOUT_S = 3.0
WARM_STEPS = 10  # of a stage, that wait for the change and for graphs
MOST_ERROR = 1e-8

FORM = TableForm(
    "changing_devices",
    "Losses over two changes of devices",
    (
        Column("stage", "batches"),
        Column("devices", "devices"),
        Column("plan", "plan"),
        Column("step_ms", "ms/step", ".0f"),
        Column("wait_s", "s until the first step", ".1f"),
        Column("error", "largest error of losses", ".1e", "at_most", MOST_ERROR),
        Column("differing", "losses that differ between two runs of one plan", ".0f", "at_most", 0.0),
    ),
)


def network() -> Any:
    """Return a compiled network that gains from being split."""
    keras.config.set_floatx("float64")
    keras.utils.set_random_seed(7)
    x = image = keras.Input((24, 24, 3))
    for filters in (32, 48, 64):
        x = keras.layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
        x = keras.layers.ReLU()(keras.layers.BatchNormalization()(x))
        x = keras.layers.MaxPooling2D()(x) if filters == 48 else x
    x = keras.layers.Dropout(0.3, seed=3)(keras.layers.GlobalAveragePooling2D()(x))
    model = keras.Model(image, keras.layers.Dense(10)(x))
    model.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


class Stages(keras.callbacks.Callback):  # type: ignore[misc]
    """Stops and continues workers at the beginnings of stages, and notes each batch: its loss, its seconds and the plan.

    Parameters
    ----------
    trainer : what is trained by.
    processes : (workers,) their process ids; empty where nothing is disturbed.
    """

    def __init__(self, trainer: hm.Trainer, processes: Sequence[int] = ()) -> None:
        super().__init__()
        self._trainer, self._processes, self._stopped = trainer, processes, set[int]()
        self._begun_s, self._epoch = 0.0, 0
        self.batches: list[tuple[int, float, float, str]] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Let the workers of this stage run, and no others."""
        self._epoch = epoch
        for worker, process in enumerate(self._processes):
            is_used = worker in STAGES[epoch]
            if is_used == (worker in self._stopped):
                os.kill(process, signal.SIGCONT if is_used else signal.SIGSTOP)
        self._stopped = {worker for worker in range(len(self._processes)) if worker not in STAGES[epoch]}

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Look at the clock."""
        self._begun_s = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Note the batch."""
        seconds = time.perf_counter() - self._begun_s
        self.batches.append((self._epoch, float(logs["loss"]), seconds, split_text(self._trainer.plan)))


def trained(trainer: hm.Trainer, stages: int, processes: Sequence[int] = ()) -> list[tuple[int, float, float, str]]:
    """Return what a training notes of each batch: its stage, the mean loss of the stage until then, its seconds and the plan.

    Parameters
    ----------
    trainer : what is trained by.
    stages : how many are trained.
    processes : as for `Stages`.
    """
    rng = np.random.default_rng(11)
    x, y = rng.normal(size=(BATCH * STEPS, 24, 24, 3)), rng.integers(0, 10, BATCH * STEPS)
    seen = Stages(trainer, processes)
    trainer.fit(x, y, batch_size=BATCH, epochs=stages, shuffle=False, verbose=0, callbacks=[seen])
    return seen.batches


def alone() -> list[tuple[int, float, float, str]]:
    """Return the batches of one device."""
    model = network()
    with hm.Cluster.local(["cpu:0"]) as cluster, hm.Trainer(model, hm.Plan.single(model, 0, cluster, BATCH), cluster) as trainer:
        return trained(trainer, len(STAGES))


def twice(profile: hm.Profile) -> int:
    """Return how many losses of an undisturbed training on four devices differ between two runs.

    Parameters
    ----------
    profile : of all devices.
    """
    runs = []
    for _ in range(2):
        model = network()
        with hm.Cluster.emulate(SHARES[:4]) as cluster:
            plan = hm.plan(profile.part(range(4)))
            with hm.Trainer(model, plan, cluster) as trainer:
                runs.append([loss for _, loss, _, _ in trained(trainer, 1)])
    return sum(one != other for one, other in zip(*runs, strict=True))


def disturbed(budget_s: float) -> tuple[hm.Profile, list[tuple[int, float, float, str]]]:
    """Return the profile of all devices, and the batches of the training whose devices change.

    Parameters
    ----------
    budget_s : seconds that measuring may take.
    """
    model = network()
    with hm.Cluster.emulate(SHARES, worker_timeout_s=TIMEOUT_S) as cluster:
        profile = hm.calibrate(cluster, model, BATCH, optimizer=model.optimizer, budget_s=budget_s)
        plan = hm.plan(profile)
        with hm.Trainer(model, plan, cluster, profile=profile, rebalance=True, elastic=True) as trainer:
            return profile, trained(trainer, len(STAGES), cluster.process_ids())


def rows(stages: Sequence[Mapping[str, Any]], differing: int) -> list[Row]:
    """Return a row for each stage.

    Parameters
    ----------
    stages : devices, plans, step_s (of each step), wait_s and error of each.
    differing : losses of the first stage that differ between two runs.
    """
    found = []
    for number, stage in enumerate(stages):
        cells = {"stage": f"{number * STEPS + 1} to {(number + 1) * STEPS}", "devices": stage["devices"], "plan": stage["plan"]}
        cells |= {"step_ms": 1e3 * statistics.median(stage["step_s"][WARM_STEPS:]), "wait_s": stage["wait_s"], "error": stage["error"]}
        found.append(table_row(cells | ({"differing": float(differing)} if number == 0 else {})))
    return found


def stage_figures(got: Sequence[tuple[int, float, float, str]], wanted: Sequence[tuple[int, float, float, str]]) -> list[dict[str, Any]]:
    """Return the figures of each stage.

    Parameters
    ----------
    got, wanted : batches of the disturbed training, and of one device.
    """
    figures = []
    for stage, workers in enumerate(STAGES):
        ours, theirs = ([batch for batch in each if batch[0] == stage] for each in (got, wanted))
        errors = [abs(one[1] - other[1]) / abs(other[1]) for one, other in zip(ours, theirs, strict=True)]
        devices = " + ".join(f"{sum(SHARES[worker] == share for worker in workers)} x {share:g}" for share in sorted(set(SHARES))[::-1])
        used = devices.replace(" + 0 x 0.15", "")
        steps = [seconds for _, _, seconds, _ in ours]
        figures.append({"devices": used, "plan": ours[-1][3], "step_s": steps, "wait_s": steps[0], "error": max(errors)})
    return figures


@click.command(help=__doc__)
@click.option("--budget", default=60.0, show_default=True, help="Seconds that the calibration may take.")
@output_options()
def main(budget: float, output: Output) -> None:
    """Train while devices change, and print the table."""
    with tempfile.TemporaryDirectory(prefix="hetero_mtf-changing-") as cache:
        os.environ["HETERO_MTF_CACHE"] = cache
        wanted = alone()
        profile, got = disturbed(budget)
        figures, differing = stage_figures(got, wanted), twice(profile)
    output.record({"stages": figures, "differing": differing})
    output.report(FORM, rows(figures, differing))


if __name__ == "__main__":
    main()
