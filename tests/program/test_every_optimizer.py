"""Every optimizer of Keras, with every option, updates as Keras does on one device, under plans that split variables too."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.planning.memory.optimizer_slots import optimizer_slots
from hetero_mtf.program.optimizer_reading import optimizer_spec, read_optimizer
from tests.older_keras import needs_keras
from tests.program.oracle import planned, worst_error
from tools.conformance.optimizers import OPTIMIZERS

O = keras.optimizers  # noqa: E741
C = keras.constraints


def _model() -> keras.Model:
    i = keras.Input((5, 5, 2))
    x = keras.layers.Conv2D(4, 3, activation="relu")(i)
    x = keras.layers.Dense(6, activation="tanh", kernel_regularizer="l1")(keras.layers.Flatten()(x))
    return keras.Model(i, keras.layers.Dense(3, kernel_constraint=C.MaxNorm(0.4))(keras.layers.Dense(5, use_bias=False)(x)))


def _batches(count: int) -> list[Any]:
    rng = np.random.default_rng(5)
    return [(rng.normal(size=(6, 5, 5, 2)), rng.normal(size=(6, 3))) for _ in range(count)]


@pytest.mark.fast("accumulation, clipped")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_updates_as_in_keras(name: str, tmp_path: Any) -> None:
    keras.config.set_floatx("float64")
    keras.utils.set_random_seed(4)
    model, batches, made = _model(), _batches(7), OPTIMIZERS[name]()
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        plan = planned(model, cluster, [(2, 1, 1), (2, 0, 3)], 6)
        with hm.Trainer(model, plan, cluster, optimizer=made, loss="mse") as trainer:
            losses = [trainer.train_on_batch(x, y) for x, y in batches[:4]]
            trainer.save(tmp_path / "state.npz")
        with hm.Trainer(model, hm.Plan.single(model, 0, cluster, 6), cluster, optimizer=made, loss="mse") as other:
            other.restore(tmp_path / "state.npz")
            losses += [other.train_on_batch(x, y) for x, y in batches[4:]]
            weights = other.to_keras().get_weights()
    model.compile(OPTIMIZERS[name](), "mse", run_eagerly=True)
    expected = [float(model.train_on_batch(x, y)) for x, y in batches]
    assert np.abs(np.subtract(expected, losses)).max() <= 1e-8, (expected, losses)
    assert worst_error(model.get_weights(), weights) <= 1e-8


@pytest.mark.fast("rmsprop, all")
@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name not in ("own", "loss scale", "several", "several, averaged")])
def test_slots_are_those_that_memory_is_planned_with(name: str) -> None:
    optimizer = OPTIMIZERS[name]()
    rule, _ = read_optimizer(optimizer, "float32")
    assert rule.slots == optimizer_slots(optimizer_spec(optimizer))


@needs_keras("3.14", "a penalty's factor is float32 in a float64 network")
def test_the_averages_are_the_weights_at_the_end_of_fit_as_in_keras() -> None:
    keras.config.set_floatx("float64")
    model, (x, y) = _model(), _batches(1)[0]
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        plan = planned(model, cluster, [(1, 3), (2, 3)], 3)
        with hm.Trainer(model, plan, cluster, optimizer=O.SGD(0.05, use_ema=True, ema_momentum=0.5), loss="mse") as trainer:
            trainer.fit(x, y, epochs=2, batch_size=3, shuffle=False, verbose=0)
            weights = trainer.to_keras().get_weights()
    model.compile(O.SGD(0.05, use_ema=True, ema_momentum=0.5), "mse")
    model.fit(x, y, epochs=2, batch_size=3, shuffle=False, verbose=0)
    assert worst_error(model.get_weights(), weights) <= 1e-8


def test_every_class_of_optimizers_is_here() -> None:
    base = O.Optimizer
    own = {name for name, kind in vars(O).items() if isinstance(kind, type) and issubclass(kind, base) and kind is not base}
    assert own <= {type(make()).__name__ for make in OPTIMIZERS.values()} | {"SGD", "Adam", "AdamW"}


def test_callbacks_see_the_slots_of_several_optimizers() -> None:
    model, (x, y) = _model(), _batches(1)[0]
    seen = []

    class Looking(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            seen.append([float(np.abs(np.array(slot)).sum()) for each in self.model.optimizer.optimizers for slot in each.variables[2:]])

    with hm.Cluster.local(["cpu:0"]) as cluster:
        plan = hm.Plan.single(model, 0, cluster, 3)
        with hm.Trainer(model, plan, cluster, optimizer=OPTIMIZERS["several"](), loss="mse") as trainer:
            trainer.fit(x, y, epochs=2, batch_size=3, verbose=0, callbacks=[Looking()])
    assert len(seen) == 2 and all(seen[0]) and seen[0] != seen[1]
