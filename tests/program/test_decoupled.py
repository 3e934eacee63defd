"""Schedule "decoupled": weights equal a simulation in NumPy, every sample is trained on once, and one stage is synchronous."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from tests.program.decoupled_simulation import LAYERS, WIDTH, Adam, Momentum, Simulation

STARTS = {1: [0], 2: [0, 3], 3: [0, 1, 3], 4: [0, 1, 2, 4]}
ALONE = {k: ([[d] for d in range(k)], [[1]] * k) for k in STARTS}
GROUPS = {
    2: ([[0, 1], [2]], [[2, 1], [1]]),
    3: ([[0], [1, 2], [3, 4]], [[1], [1, 2], [3, 1]]),
    4: ([[0, 1], [2], [3, 4], [5]], [[1, 2], [1], [2, 1], [1]]),
}


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    before = keras.config.floatx()
    keras.config.set_floatx("float64")
    yield
    keras.config.set_floatx(before)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with hm.Cluster.local(["cpu:0"] * 6) as devices:
        yield devices


def network() -> keras.Model:
    """The network of the simulation."""
    keras.utils.set_random_seed(7)
    x = keras.Input((WIDTH,))
    outputs = [x]
    for layer in range(LAYERS):
        read = outputs[-1] if layer < LAYERS - 1 else keras.layers.Add(name="added")([outputs[-1], outputs[1]])
        activation = "tanh" if layer < LAYERS - 1 else None
        outputs.append(keras.layers.Dense(WIDTH, activation=activation, name=f"dense{layer}", bias_initializer="random_normal")(read))
    return keras.Model(x, outputs[-1])


def stage_starts(starts: list[int]) -> list[str]:
    """Return the names of the layers that stages begin with: the last one's shortcut belongs to it."""
    return ["added" if start == LAYERS - 1 else f"dense{start}" for start in starts]


def data(count: int, size: int = 8) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(3)
    return [(rng.normal(size=(size, WIDTH)), rng.normal(size=(size, WIDTH))) for _ in range(count)]


def weights_of(model: keras.Model) -> list[list[np.ndarray]]:
    return [[np.array(w) for w in model.get_layer(f"dense{layer}").get_weights()] for layer in range(LAYERS)]


def plan_of(model: keras.Model, stages: int, groups: Any, cluster: Any, split: str = "filters") -> Any:
    devices, shares = groups[stages]
    return hm.Plan.pipeline(model, stage_starts(STARTS[stages]), devices, shares, cluster, 8, schedule="decoupled", split=split)


OPTIMIZERS = {
    "momentum": (lambda: keras.optimizers.SGD(0.0625, momentum=0.5), Momentum),
    "adam": (lambda: keras.optimizers.Adam(0.0625, beta_1=0.5, beta_2=0.75, epsilon=2.0**-20), Adam),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(
    ("stages", "groups", "split"),
    [*((k, ALONE, "filters") for k in STARTS), *((k, GROUPS, split) for k in GROUPS for split in ("filters", "batch"))],
)
def test_weights_equal_the_simulation(stages: int, groups: Any, split: str, optimizer: str, cluster: Any) -> None:
    model, (ours, theirs) = network(), OPTIMIZERS[optimizer]
    simulation = Simulation(weights_of(model), STARTS[stages], theirs())
    batches = [*data(10), *data(2, 3)]
    with hm.Trainer(model, plan_of(model, stages, groups, cluster, split), cluster, optimizer=ours(), loss="mse") as trainer:
        losses = [trainer.train_on_batch(x, y) for x, y in batches]
        losses = [loss for loss in losses if not np.isnan(loss)]
        drained = trainer.drain()
        trained = trainer.to_keras()
    simulation.run(batches[:10])
    simulation.run(batches[10:])
    worst = max(
        float(np.max(np.abs(ours - theirs)) / (np.max(np.abs(theirs)) + 1e-3))
        for one, other in zip(weights_of(trained), simulation.weights)
        for ours, theirs in zip(one, other)
    )
    assert worst < 1e-8
    assert losses[0] == pytest.approx(simulation.losses[0], rel=1e-9)
    assert [*losses, *drained][-1] == pytest.approx(simulation.losses[-1], rel=1e-9)


def test_every_sample_is_trained_on_once(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = network()
    x, y = np.random.default_rng(0).normal(size=(2, 29, WIDTH))
    with hm.Trainer(model, plan_of(model, 3, ALONE, cluster), cluster, optimizer="sgd", loss="mse") as trainer:
        counted: list[int] = []
        ticked = trainer._engine._ticked

        def count(want_outputs: bool) -> Any:
            finished = ticked(want_outputs)
            counted.extend(batch.size for batch, _ in finished)
            return finished

        monkeypatch.setattr(trainer._engine, "_ticked", count)
        history = trainer.fit(x, y, epochs=2, verbose=0)
        assert counted == [8, 8, 8, 5] * 2 and trainer.step == 8
    assert len(history.history["loss"]) == 2 and np.isfinite(history.history["loss"]).all()


def test_one_stage_is_synchronous_bit_for_bit(cluster: Any) -> None:
    model, batches = network(), data(5)
    weights = []
    for plan in (plan_of(model, 1, ALONE, cluster), hm.Plan.single(model, 0, cluster, 8)):
        with hm.Trainer(model, plan, cluster, optimizer=keras.optimizers.Adam(0.01), loss="mse") as trainer:
            losses = [trainer.train_on_batch(x, y) for x, y in batches]
            weights.append((losses, trainer.to_keras().get_weights()))
    assert weights[0][0] == weights[1][0]
    assert all(np.array_equal(one, other) for one, other in zip(weights[0][1], weights[1][1]))
