"""A pipeline never changes a result: the oracle is Keras on one device, in float64, with batch norm over the same microbatches."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.errors import PlanError
from hetero_mtf.keras_reading.layer_graph import layer_graph
from tests.program import small_nets as nets
from tests.program.branching_nets import NETWORKS, batch_of
from tests.program.oracle import clone, expected_placement, our_run, worst_error
from tests.program.pipelines import Pipe, accumulated_run, steps_for

TWO = ((0,), (1,))
GROUPS = ((0, 1), (2,), (3, 4))
SHARES = ((5, 2), (1,), (1, 2))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    keras.config.set_floatx("float64")
    with hm.Cluster.local(["cpu:0"] * 8) as made:
        yield made


def _sgd(**options: Any) -> Any:
    return keras.optimizers.SGD(0.02, momentum=0.9, **options)


def _loss() -> Any:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _l2() -> keras.Model:
    return nets.convs(kernel_regularizer=keras.regularizers.L2(0.01))


@dataclasses.dataclass(frozen=True)
class Case:
    """One row of the table."""

    name: str
    build: nets.Build
    pipe: Pipe
    optimizer: Callable[[], Any] = _sgd
    batches: tuple[int, ...] = (8, 8, 3, 8, 8)  # a short one, of fewer samples than there are microbatches
    weighted: bool = False


THREE = Pipe(("first", "second", "hidden"), GROUPS, SHARES)
INSIDE = ("left", "inner", "around")  # the shortcut from the first stage is read in the second and in the third
JOINED = ("left", "right", "mix", "features")  # the first stage's branch is read in the second and, as an output, nowhere else

CASES = [
    Case("two stages", nets.convs, Pipe(("first", "second"), TWO, ((1,), (1,)))),
    Case("three groups, filters", nets.convs, dataclasses.replace(THREE, schedule="fill_drain", microbatches=3), weighted=True),
    Case("a shortcut over two cuts", nets.residual, Pipe(INSIDE, GROUPS, SHARES, ("batch", "filters", "filters"), 2)),
    Case("branches in four stages", nets.branches, Pipe(JOINED, (*GROUPS, (5,)), (*SHARES, (1,)), microbatches=8)),
    Case("batch norm, batch split", nets.norms, Pipe(THREE.starts, GROUPS, SHARES, ("batch",), 3), batches=(8,) * 5),
    Case(
        "recomputation with batch norm and penalties",
        lambda: nets.norms(gamma_regularizer=keras.regularizers.L2(0.01)),
        Pipe(("first", "second"), ((0, 1), (2, 3)), ((5, 2), (1, 2)), ("batch", "filters"), 3, "fill_drain", True),
        batches=(8,) * 5,
    ),
    Case("one stage", nets.norms, Pipe(("first",), ((0, 1),), ((2, 1),), ("filters",), 3)),
    Case(
        "uneven replicas of groups",
        nets.residual,
        Pipe(("left", "last"), ((0, 1, 2, 3), (4, 5)), ((3, 2), (1,)), ("filters",), 3, "1f1b", False, (5, 3)),
    ),
    Case(
        "devices in two stages each, clipped together",
        nets.convs,
        Pipe(("first", "second", "hidden", "head"), ((0,), (1,), (0,), (1,)), ((1,),) * 4, schedule="interleaved", microbatches=4),
        lambda: keras.optimizers.AdamW(0.01, weight_decay=0.05, epsilon=1e-3, global_clipnorm=0.5),
    ),
]
QUICK = {
    "a shortcut over two cuts",
    "recomputation with batch norm and penalties",
    "uneven replicas of groups",
    "devices in two stages each, clipped together",
}
FAST = [case for case in CASES if case.name in QUICK]
SLOW = (
    [case for case in CASES if case.name not in QUICK]
    + [
        Case(
            f"{net.__name__}, {schedule}, {microbatches}, {split}, {recompute}",
            net,
            Pipe(starts, GROUPS, ((5, 3), (1,), (2, 1)), split, microbatches, schedule, recompute),
            weighted=microbatches == 3,
        )
        for net, starts in (
            (nets.convs, THREE.starts),
            (nets.norms, THREE.starts),
            (nets.residual, INSIDE),
            (nets.branches, ("left", "mix", "features")),
            (_l2, THREE.starts),
            (nets.rows_into_dense, (0, 3, 5)),
        )
        for schedule in ("1f1b", "fill_drain")
        for microbatches, split, recompute in ((1, ("batch",), False), (3, ("filters",), True), (8, ("batch", "filters", "filters"), False))
    ]
    + [
        Case(
            "three devices in a stage",
            nets.norms,
            Pipe(("first", "second"), ((0, 1, 2), (3, 4, 5)), ((4, 2, 1), (1, 3, 1)), (split,), 5),
            batches=(8, 7, 5, 1, 8),
        )
        for split in ("filters", "batch")
    ]
)


def _check(case: Case, cluster: Any) -> None:
    keras.config.set_floatx("float64")
    model = case.build()
    steps = steps_for(model, case.batches, case.weighted)
    losses, weights = accumulated_run(model, case.optimizer(), steps, case.pipe.microbatches)
    plan = case.pipe.plan(model, cluster)
    ours, trained, placement = our_run(model, plan, cluster, case.optimizer(), _loss(), steps)
    assert placement == expected_placement(layer_graph(model), plan)
    assert np.abs(np.subtract(losses, ours)).max() <= 1e-8, (losses, ours)
    assert worst_error(weights, trained) <= 1e-8


@pytest.mark.fast("a shortcut over two cuts")
@pytest.mark.parametrize("case", FAST, ids=[case.name for case in FAST])
def test_a_pipeline_gives_the_losses_and_weights_of_gradients_added_up_on_one_device(case: Case, cluster: Any) -> None:
    _check(case, cluster)


@pytest.mark.slow
@pytest.mark.parametrize("case", SLOW, ids=[case.name for case in SLOW])
def test_every_pipeline_gives_the_losses_and_weights_of_gradients_added_up_on_one_device(case: Case, cluster: Any) -> None:
    _check(case, cluster)


@pytest.mark.slow
def test_gradients_added_up_over_even_microbatches_are_keras_own_of_the_whole_batch() -> None:
    keras.config.set_floatx("float64")
    model = nets.convs()
    steps = steps_for(model, (8, 5), weighted=True)
    _, weights = accumulated_run(model, _sgd(), steps, 3)
    copy = clone(model)
    copy.compile(_sgd(), _loss(), run_eagerly=True)
    for x, y, w in zip(steps.x, steps.y, steps.weight):
        copy.train_on_batch(x, y, sample_weight=w)
    assert worst_error(copy.get_weights(), weights) <= 1e-8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "starts"),
    [("by name", (0, 4, 6)), ("outputs on the way", (0, 2, 4)), pytest.param("two outputs", (0, 3, 6), marks=pytest.mark.slow)],
)
def test_several_inputs_and_outputs_of_any_stage_are_those_of_keras(name: str, starts: tuple[int, ...], cluster: Any) -> None:
    keras.config.set_floatx("float64")
    ended = NETWORKS[name]
    model = ended.build()
    microbatches = 1 if name == "two outputs" else 3  # batch norm
    plan = Pipe(starts, GROUPS, SHARES, ("filters",), microbatches).plan(model, cluster)
    copy = clone(model)
    copy.compile(ended.optimizer(), **ended.compiled(), run_eagerly=True)
    with hm.Trainer(model, plan, cluster, optimizer=ended.optimizer(), **ended.compiled()) as trainer:
        for step, size in enumerate((8, 3, 8)):
            x, y, weight = batch_of(model, ended, size, step)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Gradients do not exist for variables")
                expected = copy.train_on_batch(x, y, sample_weight=weight)
            first = expected[0] if isinstance(expected, (list, tuple)) else expected
            assert trainer.train_on_batch(x, y, weight) == pytest.approx(float(first), abs=1e-8)
        assert worst_error(copy.get_weights(), trainer.to_keras().get_weights()) <= 1e-8
        x, y, _ = batch_of(model, ended, 5, 99)
        expected, found = (keras.tree.flatten(guess) for guess in (copy.predict(x, verbose=0), trainer.predict(x)))
        assert worst_error(expected, found) <= 1e-8


def _dropping() -> keras.Model:
    L = keras.layers
    i = keras.Input((6, 6, 2))
    x = L.Dropout(0.3)(L.Conv2D(6, 3, activation="relu", name="first")(i))
    x = L.BatchNormalization(name="norm")(L.Conv2D(4, 3, name="second")(x))
    return keras.Model(i, L.Dense(4, name="head")(L.Dropout(0.2)(L.Dense(6, activation="relu", name="hidden")(L.Flatten()(x)))))


@pytest.mark.slow
def test_dropout_drops_the_same_in_every_pipeline_of_the_same_microbatches_and_when_computed_again(cluster: Any) -> None:
    keras.config.set_floatx("float64")
    model = _dropping()
    steps = steps_for(model, (7, 7))
    pipes = [
        Pipe(("first",), ((0,),), ((1,),), schedule="synchronous", microbatches=2),
        Pipe(("first", "hidden"), ((0, 1), (2, 3)), ((5, 2), (1, 2)), ("batch",), microbatches=2),
        Pipe(("first", "hidden"), TWO, ((1,), (1,)), microbatches=2, recompute=True, schedule="fill_drain"),
    ]
    runs = [our_run(model, pipe.plan(model, cluster), cluster, _sgd(), _loss(), steps) for pipe in pipes]
    for losses, weights, _ in runs[1:]:
        assert losses == pytest.approx(runs[0][0], abs=1e-9)
        assert worst_error(runs[0][1], weights) <= 1e-8


@pytest.mark.slow
def test_training_goes_on_between_pipelines_and_other_plans_and_shows_metrics(cluster: Any) -> None:
    keras.config.set_floatx("float64")
    model = nets.convs()
    steps = steps_for(model, (8, 8, 8))
    copy = clone(model)
    copy.compile(_sgd(), _loss(), metrics=["accuracy"], run_eagerly=True)
    pipe = THREE.plan(model, cluster)
    with hm.Trainer(model, pipe, cluster, optimizer=_sgd(), loss=_loss(), metrics=["accuracy"]) as trainer:
        for plan, x, y in zip((pipe, hm.Plan.filters(model, [3, 2, 1, 0, 0, 0, 0, 0], cluster, 8), pipe), steps.x, steps.y):
            trainer.replan(plan)
            copy.train_on_batch(x, y)
            trainer.train_on_batch(x, y)
        assert worst_error(copy.get_weights(), trainer.to_keras().get_weights()) <= 1e-8
        x, y = np.concatenate(steps.x)[:21], np.concatenate(steps.y)[:21]
        expected = copy.fit(x, y, batch_size=8, shuffle=False, verbose=0, epochs=1).history
        found = trainer.fit(x, y, batch_size=8, shuffle=False, epochs=1).history
        assert found["accuracy"] == pytest.approx(expected["accuracy"]) and found["loss"] == pytest.approx(expected["loss"], abs=1e-8)
        assert trainer.evaluate(x, y)["loss"] == pytest.approx(copy.evaluate(x, y, verbose=0)[0], abs=1e-8)


def test_butterfly_mixing_over_microbatches_is_refused(cluster: Any) -> None:
    model = nets.convs()
    plan = dataclasses.replace(hm.Plan.batch(model, [1, 1, 0, 0, 0, 0, 0, 0], cluster, 8, "butterfly_mixing"), microbatches=2)
    with pytest.raises(PlanError, match="butterfly mixing and 2 microbatches, which do not go together; use gradient_sync=all_reduce"):
        hm.Trainer(model, plan, cluster, loss="mse")
