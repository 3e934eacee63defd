"""Schedule "decoupled": weights equal a simulation in NumPy, every sample is trained on once, and one stage is synchronous."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.errors import PlanError, UnsupportedError
from hetero_mtf.mesh.operations import select
from tests.program import small_nets as nets
from tests.program.oracle import worst_error
from tests.program.pipelines import Pipe, steps_for
from tests.program.stale_simulation import LAYERS, WIDTH, Adam, Momentum, Simulation, Way

REPLAY = Way()
STARTS = {1: [0], 2: [0, 3], 3: [0, 1, 3], 4: [0, 1, 2, 4]}
ALONE = {k: ([[d] for d in range(k)], [[1]] * k) for k in STARTS}
GROUPS = {
    2: ([[0, 1], [2]], [[2, 1], [1]]),
    3: ([[0], [1, 2], [3, 4]], [[1], [1, 2], [3, 1]]),
    4: ([[0, 1], [2], [3, 4], [5]], [[1, 2], [1], [2, 1], [1]]),
}
REPLICAS = {2: ([[0, 1, 2, 3], [4, 5]], [[2, 1], [1]], [5, 3])}


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


def trained_then_spoilt(trainer: Any, x: np.ndarray, y: np.ndarray) -> float:
    """Train on a batch whose arrays are then used for something else, as some generators do."""
    loss = trainer.train_on_batch(x, y)
    x[:], y[:] = np.inf, np.inf
    return float(loss)


def plan_of(model: keras.Model, stages: int, groups: Any, cluster: Any, split: str = "filters", way: Way = REPLAY) -> Any:
    devices, shares, *replicas = groups[stages]
    rates = way.rates[:stages]
    stale = hm.StaleOptions("stored" if way.stored else "replay", way.accumulate, way.predict, rates)
    schedule = "1f1b_2bw" if way.versions else "decoupled"
    starts = stage_starts(STARTS[stages])
    options: dict[str, Any] = {"replicas": replicas[0] if replicas else None, "stale": stale}
    return hm.Plan.pipeline(model, starts, devices, shares, cluster, 8, way.parts, schedule, split, **options)


OPTIMIZERS = {
    "momentum": (lambda: keras.optimizers.SGD(0.0625, momentum=0.5), Momentum),
    "adam": (lambda: keras.optimizers.Adam(0.0625, beta_1=0.5, beta_2=0.75, epsilon=2.0**-20), Adam),
}


WAYS = {
    "replay": REPLAY,
    "stored": Way(stored=True),
    "replay, predicted": Way(predict=True),
    "stored, predicted": Way(stored=True, predict=True),
    "replay, accumulated": Way(accumulate=3),
    "stored, accumulated, predicted, rates": Way(stored=True, accumulate=4, predict=True, rates=(0.25, 0.5, 2.0, 1.0)),
    "two versions": Way(versions=True, stored=True, parts=8),
    "two versions, replay": Way(versions=True, parts=8),
    "two versions, predicted, rates": Way(versions=True, stored=True, parts=8, predict=True, rates=(0.25, 0.5, 2.0, 1.0)),
}
SLOW = pytest.mark.slow
CASES = [
    *(("replay", k, ALONE, "filters") for k in STARTS),
    *(("replay", 3, GROUPS, split) for split in ("filters", "batch")),
    *((way, 3, ALONE, "filters") for way in WAYS if way != "replay"),
    *((way, 2, REPLICAS, "filters") for way in ("replay", "stored, accumulated, predicted, rates")),
    pytest.param("two versions", 2, REPLICAS, "filters", marks=SLOW),
    *(pytest.param("replay", k, GROUPS, split, marks=SLOW) for k in (2, 4) for split in ("filters", "batch")),
    *(pytest.param(way, k, ALONE, "filters", marks=SLOW) for way in WAYS for k in (2, 4) if way != "replay"),
    *(pytest.param(way, 3, GROUPS, split, marks=SLOW) for way in WAYS for split in ("filters", "batch") if way != "replay"),
    *(pytest.param(way, 1, ALONE, "filters", marks=SLOW) for way in WAYS if "accumulated" not in way and way != "replay"),
]


@pytest.mark.fast("replay-1-groups0-filters-adam", "stored, accumulated, predicted, rates-3-groups10-filters-adam")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("way", "stages", "groups", "split"), CASES)
def test_weights_equal_the_simulation(way: str, stages: int, groups: Any, split: str, optimizer: str, cluster: Any) -> None:
    check_against_simulation(way, stages, groups, split, optimizer, cluster)


@pytest.mark.fast("two versions, predicted, rates")
@pytest.mark.parametrize("way", ["stored, accumulated, predicted, rates", "two versions, predicted, rates"])
def test_weights_equal_the_simulation_where_tensors_are_not_copied(way: str, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "COPIED_UP_TO", 0)
    check_against_simulation(way, 3, ALONE, "filters", "momentum", cluster)


def check_against_simulation(way: str, stages: int, groups: Any, split: str, optimizer: str, cluster: Any) -> None:
    model, (ours, theirs), chosen = network(), OPTIMIZERS[optimizer], WAYS[way]
    rates = chosen.rates[:stages] or (1.0,) * stages
    simulation = Simulation(weights_of(model), STARTS[stages], [theirs(0.0625 * rate) for rate in rates], chosen)
    batches = [*data(10), *data(2, 3)]
    with hm.Trainer(model, plan_of(model, stages, groups, cluster, split, chosen), cluster, optimizer=ours(), loss="mse") as trainer:
        losses = [trained_then_spoilt(trainer, x.copy(), y.copy()) for x, y in batches]
        losses = [loss for loss in losses if not np.isnan(loss)]
        drained = trainer.drain()
        trained = trainer.to_keras()
    simulation.run(batches[:10])
    first_loss = np.mean(simulation.losses[: chosen.parts])
    for odd in [batches[10:11], batches[11:]] if chosen.parts > 1 else [batches[10:]]:  # smaller batches of few parts train one by one
        simulation.way = dataclasses.replace(chosen, parts=1)
        simulation.run(odd)
    worst = max(
        float(np.max(np.abs(ours - theirs)) / (np.max(np.abs(theirs)) + 1e-3))
        for one, other in zip(weights_of(trained), simulation.weights)
        for ours, theirs in zip(one, other)
    )
    assert worst < 1e-8
    assert losses[0] == pytest.approx(first_loss, rel=1e-9)
    assert [*losses, *drained][-1] == pytest.approx(simulation.losses[-1], rel=1e-9)


@pytest.mark.slow
def test_every_sample_is_trained_on_once(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = network()
    x, y = np.random.default_rng(0).normal(size=(2, 29, WIDTH))
    with hm.Trainer(model, plan_of(model, 3, ALONE, cluster), cluster, optimizer="sgd", loss="mse") as trainer:
        counted: list[int] = []
        leave = trainer._run.engine._leave

        def count(leaving: Any, fetched: Any) -> None:
            counted.append(leaving.part.size)
            leave(leaving, fetched)

        monkeypatch.setattr(trainer._run.engine, "_leave", count)
        history = trainer.fit(x, y, epochs=2, verbose=0)
        assert counted == [8, 8, 8, 5] * 2 and trainer.step == 8
    assert len(history.history["loss"]) == 2 and np.isfinite(history.history["loss"]).all()


@pytest.mark.slow
def test_one_stage_is_synchronous_bit_for_bit(cluster: Any) -> None:
    model, batches = network(), data(5)
    weights = []
    for plan in (plan_of(model, 1, ALONE, cluster), hm.Plan.single(model, 0, cluster, 8)):
        with hm.Trainer(model, plan, cluster, optimizer=keras.optimizers.Adam(0.01), loss="mse") as trainer:
            losses = [trainer.train_on_batch(x, y) for x, y in batches]
            weights.append((losses, trainer.to_keras().get_weights()))
    assert weights[0][0] == weights[1][0]
    assert all(np.array_equal(one, other) for one, other in zip(weights[0][1], weights[1][1]))


GROUPED = (((0, 1), (2,), (3, 4)), ((5, 2), (1,), (1, 2)))
NETWORKS: dict[str, tuple[Any, Pipe]] = {
    "penalties": (
        lambda: nets.convs(kernel_regularizer=keras.regularizers.L2(0.01)),
        Pipe(("first", "second", "hidden"), *GROUPED, ("batch", "filters", "filters"), 1, "decoupled"),
    ),
    "batch norm": (nets.norms, Pipe(("first", "second", "hidden"), *GROUPED, ("batch",), 1, "decoupled")),
    "a shortcut": (nets.residual, Pipe(("left", "inner", "around"), *GROUPED, ("filters",), 1, "decoupled")),
    "branches": (
        nets.branches,
        Pipe(("left", "right", "mix", "features"), (*GROUPED[0], (5,)), (*GROUPED[1], (1,)), ("filters",), 1, "decoupled"),
    ),
    "dropout": (lambda: dropped(), Pipe((0, 3, 5), ((0,), (1,), (2,)), ((1,), (1,), (1,)), ("filters",), 1, "decoupled")),
}


def dropped() -> keras.Model:
    """Dropout in two stages."""
    keras.utils.set_random_seed(5)
    layers = keras.layers
    names = [
        layers.Dense(8, activation="relu"),
        layers.Dropout(0.4),
        layers.Dense(8, activation="tanh"),
        layers.Dropout(0.3),
        layers.Dense(4),
    ]
    return keras.Sequential([keras.Input((6,)), *names])


def trained_by(plan: Any, model: keras.Model, cluster: Any, steps: Any) -> list[np.ndarray]:
    optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.05, epsilon=1e-3, clipnorm=0.5)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with hm.Trainer(model, plan, cluster, optimizer=optimizer, loss=loss) as trainer:
        for x, y, weight in zip(steps.x, steps.y, steps.weight):
            trainer.train_on_batch(x, y, weight)
            trainer.drain()
        return list(trainer.to_keras().get_weights())


@pytest.mark.slow
@pytest.mark.parametrize("backward", ["replay", "stored"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_batch_by_itself_is_a_synchronous_step(name: str, backward: str, cluster: Any) -> None:
    build, pipe = NETWORKS[name]
    model = build()
    steps = steps_for(model, (8, 8, 3), weighted=True)
    plan = dataclasses.replace(pipe.plan(model, cluster), stale=hm.StaleOptions(backward, predict=True))
    ours = trained_by(plan, model, cluster, steps)
    assert worst_error(trained_by(hm.Plan.single(model, 0, cluster, 8), model, cluster, steps), ours) <= 1e-8


@pytest.mark.slow
def test_what_reads_weights_drains_first_and_training_goes_on(cluster: Any, tmp_path: pathlib.Path) -> None:
    model, batches = network(), data(7)
    plan = plan_of(model, 3, ALONE, cluster)
    simulation = Simulation(weights_of(model), STARTS[3], [Momentum() for _ in range(3)])
    with hm.Trainer(model, plan, cluster, optimizer=OPTIMIZERS["momentum"][0](), loss="mse") as trainer:
        for x, y in batches[:4]:
            trainer.train_on_batch(x, y)
        trainer.save(tmp_path / "state.npz")
        for x, y in batches[4:]:
            trainer.train_on_batch(x, y)
        continued = weights_of(trainer.to_keras())
    simulation.run(batches[:4])
    simulation.run(batches[4:])
    with hm.Trainer(network(), plan, cluster, optimizer=OPTIMIZERS["momentum"][0](), loss="mse") as trainer:
        trainer.restore(tmp_path / "state.npz")
        for x, y in batches[4:]:
            trainer.train_on_batch(x, y)
        resumed = weights_of(trainer.to_keras())
    for one, other, simulated in zip(continued, resumed, simulation.weights):
        assert all(np.array_equal(a, b) for a, b in zip(one, other))
        assert all(np.allclose(a, b, rtol=0, atol=1e-9) for a, b in zip(one, simulated))


def test_what_the_schedule_does_not_support_is_refused(cluster: Any) -> None:
    model = network()
    plan = plan_of(model, 2, ALONE, cluster)
    with pytest.raises(UnsupportedError, match="global_clipnorm.*use clipnorm"):
        hm.Trainer(model, plan, cluster, optimizer=keras.optimizers.SGD(0.1, global_clipnorm=1.0), loss="mse")
    image = keras.Input((4,))
    penalised = keras.layers.Dense(3, name="first", activity_regularizer="l2")(image)
    adding = keras.Model(image, keras.layers.Dense(2, name="second")(penalised))
    late = hm.Plan.pipeline(adding, ["first", "second"], [[0], [1]], [[1], [1]], cluster, 8, schedule="decoupled")
    with pytest.raises(
        UnsupportedError, match="layer first adds to the loss, which pipelines without a flush do not take; use schedule 1f1b"
    ):
        hm.Trainer(adding, late, cluster, loss="mse")
    first = keras.layers.Dense(3, name="first")(image)
    early = keras.Model(image, [first, keras.layers.Dense(2, name="second")(first)])
    bad = hm.Plan.pipeline(early, ["first", "second"], [[0], [1]], [[1], [1]], cluster, 8, schedule="decoupled")
    with pytest.raises(PlanError, match="hold the output first, the schedule decoupled has all outputs in the last stage"):
        hm.Trainer(early, bad, cluster, loss="mse")
