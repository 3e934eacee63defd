"""Training without a flush goes on after a worker was killed, from its last checkpoint, without a sample skipped or used twice."""

from __future__ import annotations

import os
import pathlib
import signal
import time
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.errors import WorkerError

SAMPLES, BATCH = 46, 4


def network() -> keras.Model:
    keras.utils.set_random_seed(3)
    names = [keras.layers.Dense(6, activation="tanh", name=f"dense{number}") for number in range(3)]
    return keras.Sequential([keras.Input((6,)), *names])


class Saving(keras.callbacks.Callback):
    """Saves the trainer after some batches, and may do something after others.

    Parameters
    ----------
    trainer, path : what to save, and where.
    at : numbers of the batches of the first epoch after which it is saved.
    then : batch number -> function.
    """

    def __init__(self, trainer: Any, path: pathlib.Path, at: tuple[int, ...], then: dict[int, Any]) -> None:
        super().__init__()
        self.trainer, self.path, self.at, self.then = trainer, path, at, dict(then)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.at and self.trainer.step in self.at:
            self.trainer.save(self.path)
        if self.trainer.step in self.then:
            self.then.pop(self.trainer.step)()


def fitted(cluster: Any, path: pathlib.Path, schedule: str, counted: list[int], resume: bool, then: dict[int, Any]) -> list[np.ndarray]:
    """Return the weights after two epochs in which the trainer was saved after 5 batches."""
    model = network()
    parts = 2 if schedule == "1f1b_2bw" else 1
    starts = ["dense0", "dense1", "dense2"][: len(cluster.devices)]
    groups = [[device] for device in range(len(cluster.devices))]
    plan = hm.Plan.pipeline(model, starts, groups, [[1]] * len(groups), cluster, BATCH, parts, schedule)
    x, y = np.random.default_rng(0).normal(size=(2, SAMPLES, 6))
    x[:, 0] = np.arange(SAMPLES)
    with hm.Trainer(model, plan, cluster, optimizer=keras.optimizers.SGD(0.001, momentum=0.5), loss="mse") as trainer:
        if resume:
            trainer.restore(path)
        leave = trainer._run.engine._leave

        def count(leaving: Any, fetched: Any) -> None:
            counted.extend(leaving.part.x[0][:, 0].astype(int).tolist())
            leave(leaving, fetched)

        trainer._run.engine._leave = count
        trainer.fit(x, y, epochs=2, callbacks=[Saving(trainer, path, () if resume else (5,), then)], verbose=0)
        return [np.array(weight) for weight in trainer.to_keras().get_weights()]


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["decoupled", "1f1b_2bw"])
def test_a_killed_worker_costs_the_work_since_the_last_checkpoint(schedule: str, tmp_path: pathlib.Path) -> None:
    counted: list[int] = []
    with hm.Cluster.emulate([0.5, 0.5]) as cluster:
        expected = fitted(cluster, tmp_path / "undisturbed.npz", schedule, counted, False, {})
    assert sorted(counted) == sorted([*range(SAMPLES)] * 2)

    before: list[int] = []
    start_s = time.monotonic()
    with pytest.raises(WorkerError, match="worker:1 was killed"), hm.Cluster.emulate([0.5, 0.5]) as cluster:
        process = cluster._backend.process_ids()[1]
        fitted(cluster, tmp_path / "state.npz", schedule, before, False, {8: lambda: os.kill(process, signal.SIGKILL)})
    assert time.monotonic() - start_s < 120

    after: list[int] = []
    with hm.Cluster.emulate([0.5, 0.5]) as cluster:
        resumed = fitted(cluster, tmp_path / "state.npz", schedule, after, True, {})
    kept = before[: 5 * BATCH]  # what the checkpoint holds
    assert sorted([*kept, *after]) == sorted([*range(SAMPLES)] * 2)
    assert all(np.array_equal(one, other) for one, other in zip(expected, resumed))
    assert len(before) - len(kept) <= 3 * BATCH


def test_a_step_that_fails_leaves_a_trainer_that_can_be_read_and_goes_on() -> None:
    model = network()
    x, y = np.random.default_rng(0).normal(size=(2, BATCH, 6))
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        plan = hm.Plan.pipeline(model, ["dense0", "dense1"], [[0], [1]], [[1], [1]], cluster, BATCH, schedule="decoupled")
        with hm.Trainer(model, plan, cluster, optimizer="sgd", loss="mse") as trainer:
            for _ in range(4):
                trainer.train_on_batch(x, y)
            trainer.wait()
            engine = trainer._run.engine
            plain = engine._run

            def fail(fetches: Any, feeds: Any) -> Any:
                engine._run = plain
                raise WorkerError("this call fails; go on")

            engine._run = fail
            with pytest.raises(WorkerError, match="this call fails"):
                trainer.train_on_batch(x, y)
                trainer.wait()
            weights = trainer.to_keras().get_weights()
            assert all(np.isfinite(weight).all() for weight in weights)
            losses = [trainer.train_on_batch(x, y) for _ in range(8)] + trainer.drain()
            assert np.isfinite(losses[-1]) and losses[-1] < losses[3]


@pytest.mark.fast("1f1b_2bw")
@pytest.mark.parametrize("schedule", ["decoupled", "1f1b_2bw"])
def test_a_traced_step_keeps_the_losses_of_the_batches_in_flight(schedule: str) -> None:
    keras.config.set_floatx("float64")
    model, (x, y) = network(), np.random.default_rng(0).normal(size=(2, 6 * BATCH, 6))
    batches = [slice(at, at + BATCH) for at in range(0, len(x), BATCH)]
    losses = []
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        parts = 2 if schedule == "1f1b_2bw" else 1
        plan = hm.Plan.pipeline(model, ["dense0", "dense2"], [[0], [1]], [[1], [1]], cluster, BATCH, parts, schedule)
        for traced in (False, True):
            with hm.Trainer(model, plan, cluster, optimizer="sgd", loss="mse") as trainer:
                engine = trainer._run.engine
                if traced:
                    engine.advance = lambda *step, engine=engine: engine.advance_traced(*step)[0]  # type: ignore[method-assign]
                given = [trainer.train_on_batch(x[cut], y[cut]) for cut in batches]
                losses.append([*(loss for loss in given if not np.isnan(loss)), *trainer.drain()])
    assert losses[0] == losses[1] and len(losses[0]) == len(batches)
