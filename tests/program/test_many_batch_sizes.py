"""A trainer that sees many batch sizes keeps a bounded number of programs, and gives what one gives that keeps them all."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import hetero_mtf as hm
from hetero_mtf.program import engine
from tests.cases import first_fast
from tests.program import small_nets as nets
from tests.program.oracle import Steps, clone, keras_run, planned, worst_error
from tests.program.pipelines import Pipe, accumulated_run, steps_for
from tools.bench import batch_sizes

MakePlan = Callable[[Any, Any], hm.Plan]
SIZES = (8, 3, 5, 8, 2, 3)
PIPE = Pipe(("left", "last"), ((0,), (1, 2)), ((1,), (2, 1)), microbatches=2)


def _loss() -> Any:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _adam() -> Any:
    return keras.optimizers.Adam(0.01)


def dropped() -> keras.Model:
    """Return convolutions with batch norm and dropout, whose masks depend on the step."""
    x = inputs = keras.Input((6, 6, 2))
    for filters in (4, 3):
        x = keras.layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = keras.layers.Dropout(0.3)(keras.layers.BatchNormalization()(x))
    return keras.Model(inputs, keras.layers.Dense(3)(keras.layers.GlobalAveragePooling2D()(x)))


def filters(model: Any, cluster: Any) -> hm.Plan:
    return planned(model, cluster, [[3, 1], [2, 1]])


def mixing(model: Any, cluster: Any) -> hm.Plan:
    return hm.Plan.batch(model, (4, 2, 1, 1), cluster, 8, gradient_sync="butterfly_mixing")


def pipeline(model: Any, cluster: Any) -> hm.Plan:
    return PIPE.plan(model, cluster)


CASES: dict[str, tuple[Callable[[], Any], int, MakePlan]] = {
    "dropout": (dropped, 2, filters),
    "mixing": (nets.convs, 4, mixing),
    "pipeline": (nets.residual, PIPE.processors, pipeline),
}


def _everything(model: Any, plan: hm.Plan, cluster: Any, steps: Steps) -> list[Any]:
    """Return the losses, predictions or tested losses after each step, the weights and slots, and the placement."""
    found: list[Any] = []
    with hm.Trainer(clone(model), plan, cluster, optimizer=_adam(), loss=_loss(), seed=5) as trainer:
        for number, (x, y) in enumerate(zip(steps.x, steps.y)):
            found.append(trainer.train_on_batch(x, y))
            found.append(trainer.predict(x, batch_size=len(x)) if number % 2 else trainer.test_on_batch(x, y))
        return [*found, *(value for _, value in sorted(trainer._run.engine.read().items())), trainer.placement()]


def _same(found: Sequence[Any], expected: Sequence[Any]) -> None:
    for a, b in zip(found, expected, strict=True):
        assert a == b if isinstance(a, dict) else np.array_equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_programs_that_leave_change_no_bit_of_anything(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keras.config.set_floatx("float64")
    build, devices, make = CASES[case]
    model = build()
    steps = steps_for(model, SIZES)
    with hm.Cluster.local(["cpu:0"] * devices) as cluster:
        plan = make(model, cluster)
        expected = _everything(model, plan, cluster, steps)
        monkeypatch.setattr(engine, "PROGRAMS", 2)
        _same(_everything(model, plan, cluster, steps), expected)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_programs_that_leave_change_no_bit_on_workers(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keras.config.set_floatx("float64")
    build, devices, make = CASES[case]
    model = build()
    steps = steps_for(model, SIZES)
    with hm.Cluster.emulate([0.4] * devices) as cluster:
        plan = make(model, cluster)
        expected = _everything(model, plan, cluster, steps)
        monkeypatch.setattr(engine, "PROGRAMS", 2)
        _same(_everything(model, plan, cluster, steps), expected)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["filters", "pipeline"])
def test_fifty_nine_sizes_in_random_order_train_as_one_device_does(case: str) -> None:
    keras.config.set_floatx("float64")
    model = nets.residual()
    steps = steps_for(model, np.random.default_rng(2).permutation(np.arange(2, 61)).tolist())
    sgd = [keras.optimizers.SGD(0.01, momentum=0.9) for _ in range(2)]
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        if case == "pipeline":
            plan, (losses, weights) = PIPE.plan(model, cluster), accumulated_run(model, sgd[0], steps, PIPE.microbatches)
        else:
            plan, (losses, weights) = hm.Plan.filters(model, [3, 2, 1], cluster, 8), keras_run(model, sgd[0], _loss(), steps)
        with hm.Trainer(model, plan, cluster, optimizer=sgd[1], loss=_loss()) as trainer:
            ours, nodes = [], []
            for x, y in zip(steps.x, steps.y):
                ours.append(trainer.train_on_batch(x, y))
                nodes.append(trainer.nodes)
            trained = trainer.to_keras().get_weights()
    assert np.abs(np.subtract(losses, ours)).max() <= 1e-8
    assert worst_error(weights, trained) <= 1e-8
    assert max(nodes[engine.PROGRAMS :]) <= 1.1 * nodes[engine.PROGRAMS - 1]


@pytest.mark.slow
def test_a_size_after_many_gives_what_a_fresh_trainer_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    keras.config.set_floatx("float64")
    monkeypatch.setattr(engine, "PROGRAMS", 2)
    model = dropped()
    steps = steps_for(model, SIZES[:4])
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        plan = filters(model, cluster)
        settings: dict[str, Any] = {"optimizer": _adam(), "loss": _loss(), "seed": 5}
        with hm.Trainer(clone(model), plan, cluster, **settings) as trainer:
            for x, y in zip(steps.x, steps.y):
                with hm.Trainer(trainer.to_keras(), plan, cluster, **settings) as fresh:
                    assert fresh.test_on_batch(x, y) == trainer.test_on_batch(x, y)
                    assert np.array_equal(fresh.predict(x), trainer.predict(x))
                trainer.train_on_batch(x, y)


def _built(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Return a list that the mode and size of every program that is built will be added to."""
    built: list[tuple[str, int]] = []
    build = engine.build_program

    def counted(context: Any, mode: str, batch: int, *others: Any) -> Any:
        built.append((mode, batch))
        return build(context, mode, batch, *others)

    monkeypatch.setattr(engine, "build_program", counted)
    return built


@pytest.mark.slow
@pytest.mark.parametrize("mixes", first_fast([False, True], 1))
def test_a_fit_an_evaluation_and_a_prediction_with_short_last_batches_build_each_program_once(
    mixes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = _built(monkeypatch)
    model = nets.convs()
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(21, *model.input_shape[1:])), rng.integers(0, model.output_shape[-1], 21)
    with hm.Cluster.local(["cpu:0"] * 4) as cluster:
        plan = mixing(model, cluster) if mixes else hm.Plan.filters(model, [1, 1, 1, 1], cluster, 8)
        with hm.Trainer(model, plan, cluster, loss=_loss()) as trainer:
            for _ in range(2):
                trainer.fit(x, y, epochs=2, validation_data=(x[:11], y[:11]), verbose=0)
                trainer.evaluate(x, y, batch_size=5)
                trainer.predict(x)
    phases = int(math.log2(4)) if mixes else 1
    assert len(set(built)) == 8 and len(built) == 8 + 2 * (phases - 1)  # of the two sizes that are trained on


@pytest.mark.slow
def test_graphs_whose_programs_left_are_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "PROGRAMS", 1)
    model = dropped()
    steps = steps_for(model, SIZES)
    count = lambda: sum(isinstance(one, tf.Graph) for one in gc.get_objects())  # noqa: E731
    with hm.Cluster.local(["cpu:0"] * 2) as cluster, hm.Trainer(model, filters(model, cluster), cluster, loss=_loss()) as trainer:
        graphs = []
        for x, y in zip(steps.x, steps.y):
            trainer.train_on_batch(x, y)
            gc.collect()
            graphs.append(count())
    assert max(graphs) == graphs[0]


@pytest.mark.slow
@pytest.mark.parametrize("mode", batch_sizes.MODES)
@pytest.mark.parametrize("cluster", batch_sizes.CLUSTERS)
def test_fifty_nine_sizes_hold_little_more_memory_than_four(cluster: str, mode: str) -> None:
    assert batch_sizes.held_apart(cluster, mode)["ratio"] <= batch_sizes.LIMIT
