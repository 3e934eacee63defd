"""A plan never changes a result: Keras on one device is the oracle, float64 the scale."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.keras_reading.layer_graph import layer_graph
from tests.program import small_nets as nets
from tests.program.oracle import Steps, assert_transparent, expected_placement, keras_run, our_run, planned


@pytest.fixture(scope="module")
def clusters() -> Iterator[dict[int, Any]]:
    made = {count: hm.Cluster.local(["cpu:0"] * count) for count in (1, 2, 3)}
    yield made
    for cluster in made.values():
        cluster.close()


@dataclasses.dataclass(frozen=True)
class Case:
    """One row of the table; `sizes` are those of the plan's segments, or shares if they are one tuple."""

    name: str
    build: nets.Build
    shares: tuple[float, ...] = (7, 4, 1)
    sizes: tuple[tuple[int, ...], ...] = ()
    pairing: str = "pairs"
    optimizer: Callable[[], Any] = lambda: keras.optimizers.SGD(0.05, momentum=0.9)
    loss: Callable[[], Any] = lambda: keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    target: str = "labels"
    weights: bool = False
    batches: tuple[int, ...] = (8, 8, 8, 8, 8)
    graph_mode: bool = False

    def plan(self, model: keras.Model, clusters: dict[int, Any]) -> tuple[hm.Plan, Any]:
        if self.sizes:
            cluster = clusters[len(self.sizes[0])]
            return planned(model, cluster, self.sizes, pairing=self.pairing), cluster
        cluster = clusters[len(self.shares)]
        if len(self.shares) == 1:
            return hm.Plan.single(model, 0, cluster, 8), cluster
        return hm.Plan.filters(model, self.shares, cluster, 8, pairing=self.pairing), cluster

    def steps(self, model: keras.Model) -> Steps:
        rng = np.random.default_rng(3)
        classes = model.output_shape[-1]
        places = model.output_shape[1:-1]
        make = {
            "labels per place": lambda n: rng.integers(0, classes, (n, *places)),
            "numbers per place": lambda n: rng.normal(size=(n, *places, classes)),
            "labels": lambda n: rng.integers(0, classes, n),
            "one-hot": lambda n: np.eye(classes)[rng.integers(0, classes, n)],
            "binary": lambda n: rng.integers(0, 2, (n, classes)).astype(float),
            "numbers": lambda n: rng.normal(size=(n, classes)),
        }[self.target]
        x = [rng.normal(size=(n, *model.input_shape[1:])) for n in self.batches]
        y = [make(n) for n in self.batches]
        return Steps(x, y, [rng.uniform(0, 2, n) if self.weights else None for n in self.batches])


def _sgd(**options: Any) -> Callable[[], Any]:
    return lambda: keras.optimizers.SGD(**{"learning_rate": 0.05, **options})


def _adam(**options: Any) -> Callable[[], Any]:
    return lambda: keras.optimizers.Adam(**{"learning_rate": 0.01, "epsilon": 1e-3, **options})


def _adamw(**options: Any) -> Callable[[], Any]:
    return lambda: keras.optimizers.AdamW(**{"learning_rate": 0.01, "epsilon": 1e-3, **options})


def _loss(name: str, **options: Any) -> Callable[[], Any]:
    return lambda: getattr(keras.losses, name)(**options)


def _l2() -> keras.Model:
    return nets.convs(kernel_regularizer=keras.regularizers.L2(0.01), bias_regularizer=keras.regularizers.L1L2(l2=0.02))


def _l2_norms() -> keras.Model:
    return nets.norms(gamma_regularizer=keras.regularizers.L2(0.01))


def _frozen_norm() -> keras.Model:
    return nets.norms(frozen=True)


LAYOUTS = [
    Case("one device", nets.convs, (1,)),
    Case("two devices", nets.convs, (5, 2)),
    Case("three devices", nets.convs),
    Case("three devices, compiled oracle", nets.convs, graph_mode=True),
    Case("every layer gathered", nets.convs, pairing="gather"),
    Case("a device left out in the middle", nets.convs, (2, 0, 1)),
    Case("the paper's sizes", nets.wide, sizes=((42, 15, 3), (4, 1, 1))),
    Case("nearly all on the first device", nets.wide, sizes=((59, 1, 0), (3, 2, 1))),
    Case("zeros at the start, in the middle and at the end", nets.wide, sizes=((57, 0, 3), (0, 5, 1))),
    Case("zeros in the middle, gathered", nets.wide, sizes=((30, 0, 30), (3, 7, 0), (0, 0, 6), (0, 2, 3)), pairing="gather"),
    Case("all of a layer on one of three devices", nets.wide, sizes=((0, 60, 0), (2, 0, 4))),
    Case("strides of two", lambda: nets.convs(strides=2)),
    Case("strides of two, no padding, gathered", lambda: nets.convs(strides=2, padding="valid"), pairing="gather"),
    Case("strides of three", lambda: nets.convs(strides=3), (1, 1)),
    Case("unequal strides", lambda: nets.convs(strides=(2, 1)), (1, 2)),
    Case("pools", nets.pools),
    Case("pools, zero in the middle", nets.pools, sizes=((7, 0, 5), (1, 4, 0))),
    Case("pools, gathered", nets.pools, pairing="gather"),
    Case("batch norm", nets.norms),
    Case("batch norm, gathered", nets.norms, pairing="gather"),
    Case("batch norm, zero in the middle", nets.norms, sizes=((7, 0, 5), (1, 5, 0))),
    Case("batch norm frozen", _frozen_norm),
    Case("batch norm with L2", _l2_norms, (3, 1)),
    Case("residual", nets.residual),
    Case("residual, gathered", nets.residual, pairing="gather"),
    Case("residual, zero in the middle", nets.residual, sizes=((7, 0, 5), (0, 10, 0))),
    Case("branches", nets.branches, optimizer=_sgd(learning_rate=0.001, momentum=0.9)),
    Case("branches, gathered", nets.branches, (1, 5), pairing="gather", optimizer=_sgd(learning_rate=0.001, momentum=0.9)),
    Case("branches, zeros", nets.branches, sizes=((0, 7, 0), (5, 0, 0), (3, 3, 4), (0, 5, 0)), optimizer=_sgd(learning_rate=0.001)),
    Case("flatten into rows", nets.rows_into_dense),
    Case("flatten into rows, zero", nets.rows_into_dense, sizes=((11, 0, 1), (1, 2, 2))),
    Case("flatten into columns", nets.rows_into_dense, pairing="gather"),
    Case("dense on images", nets.sequential),
    Case("softmax head", nets.probabilities, loss=_loss("SparseCategoricalCrossentropy"), graph_mode=True),
    Case("softmax layer, rescaled", nets.softmax_layer, loss=_loss("SparseCategoricalCrossentropy"), graph_mode=True),
    Case("frozen layers", nets.partly_frozen),
    Case("frozen layers, gathered", nets.partly_frozen, pairing="gather"),
    Case("L2", _l2),
    Case("L2, gathered", _l2, (5, 2), pairing="gather"),
    Case("batches of other sizes", nets.norms, batches=(8, 5, 8, 1, 3)),
    Case("sample weights", nets.convs, weights=True),
    Case("a class for every place", nets.pixels, target="labels per place"),
    Case("numbers for every place", nets.pixels, target="numbers per place", loss=_loss("MeanSquaredError"), weights=True),
    Case("one layer", nets.linear, target="numbers", loss=_loss("MeanSquaredError")),
    Case("nothing learns", nets.unlearning),
    Case("batch norm of single points", nets.norm_of_points),
    Case("batch norm of one sample", nets.norm_of_points, (1, 1), batches=(1, 2, 1, 1, 1)),
    Case("a flatten with two readers", nets.one_flatten_two_readers),
    Case("a flatten with two readers, gathered", nets.one_flatten_two_readers, (1, 2), pairing="gather"),
]

OPTIMIZERS = [
    ("SGD", _sgd()),
    ("SGD with weight decay", _sgd(weight_decay=0.05)),
    ("nesterov", _sgd(momentum=0.8, nesterov=True)),
    ("momentum with weight decay", _sgd(momentum=0.8, weight_decay=0.05)),
    ("clipnorm", _sgd(clipnorm=0.1, momentum=0.9)),
    ("global_clipnorm", _sgd(global_clipnorm=0.1)),
    ("clipvalue", _sgd(clipvalue=0.01)),
    ("Adam", _adam()),
    ("Adam amsgrad", _adam(amsgrad=True)),
    ("Adam, own betas", _adam(beta_1=0.7, beta_2=0.95, weight_decay=0.1)),
    ("Adam global_clipnorm", _adam(global_clipnorm=0.1)),
    ("AdamW", _adamw(weight_decay=0.05)),
    ("AdamW amsgrad clipnorm", _adamw(weight_decay=0.05, amsgrad=True, clipnorm=0.1)),
    ("schedule", lambda: keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5), momentum=0.9)),
    (
        "stepwise schedule",
        lambda: keras.optimizers.Adam(keras.optimizers.schedules.PiecewiseConstantDecay([1, 3], [0.01, 0.005, 0.001]), epsilon=1e-3),
    ),
]

LOSSES = [
    ("dense cross-entropy from logits", "CategoricalCrossentropy", {"from_logits": True, "label_smoothing": 0.1}, nets.convs, "one-hot"),
    ("dense cross-entropy of softmax", "CategoricalCrossentropy", {}, nets.probabilities, "one-hot"),
    ("binary cross-entropy from logits", "BinaryCrossentropy", {"from_logits": True}, nets.convs, "binary"),
    ("binary cross-entropy of sigmoid", "BinaryCrossentropy", {}, lambda: nets.probabilities("sigmoid"), "binary"),
    ("binary cross-entropy, one unit", "BinaryCrossentropy", {"label_smoothing": 0.2}, lambda: nets.probabilities("sigmoid", 1), "binary"),
    ("squared error", "MeanSquaredError", {}, nets.convs, "numbers"),
    ("squared error of softmax", "MeanSquaredError", {}, nets.probabilities, "numbers"),
    ("sparse cross-entropy of sigmoid", "SparseCategoricalCrossentropy", {}, lambda: nets.probabilities("sigmoid"), "labels"),
]

CASES = [
    *LAYOUTS,
    *(
        Case(
            f"reduction {reduction} of every place, weights {weights}",
            nets.pixels,
            (5, 2),
            target="labels per place",
            optimizer=_sgd(learning_rate=0.01),
            weights=weights,
            loss=_loss("SparseCategoricalCrossentropy", from_logits=True, reduction=reduction),
        )
        for reduction in ("sum_over_batch_size", "sum", "mean_with_sample_weight")
        for weights in (False, True)
    ),
    *(Case(f"optimizer {name}", nets.convs, optimizer=make) for name, make in OPTIMIZERS),
    Case("clipping with zeros", nets.wide, sizes=((57, 0, 3), (0, 5, 1)), optimizer=_sgd(global_clipnorm=0.1)),
    Case("Adam with batch norm and L2", _l2_norms, optimizer=_adam()),
    *(
        Case(f"loss {name}", build, loss=_loss(kind, **options), target=target, graph_mode=True)
        for name, kind, options, build, target in LOSSES
    ),
    *(
        Case(f"reduction {reduction}, weights {weights}", nets.convs, (5, 2), optimizer=_sgd(learning_rate=0.01), weights=weights,
             loss=_loss("SparseCategoricalCrossentropy", from_logits=True, reduction=reduction))
        for reduction in ("sum", "mean_with_sample_weight")
        for weights in (False, True)
    ),
]  # fmt: skip

# The others of each mechanism; `make test-all` trains them too.
_SLOW = {
    "strides of two, no padding, gathered", "strides of three", "dense on images", "optimizer SGD with weight decay",
    "optimizer Adam, own betas",
    "loss squared error", "loss binary cross-entropy from logits", "Adam with batch norm and L2",
    "reduction sum of every place, weights True", "reduction sum, weights True",
    "three devices", "three devices, compiled oracle", "every layer gathered", "the paper's sizes", "nearly all on the first device",
    "all of a layer on one of three devices", "strides of two", "unequal strides", "pools", "pools, gathered", "batch norm",
    "batch norm, gathered", "batch norm with L2", "residual", "residual, gathered", "branches", "branches, gathered", "flatten into rows",
    "flatten into columns", "frozen layers, gathered", "L2", "batch norm of single points", "a flatten with two readers",
    "numbers for every place", "optimizer SGD", "optimizer momentum with weight decay", "optimizer global_clipnorm",
    "optimizer clipvalue", "optimizer Adam", "optimizer Adam global_clipnorm", "optimizer AdamW", "optimizer stepwise schedule",
    "loss dense cross-entropy from logits", "loss squared error of softmax", "loss binary cross-entropy of sigmoid",
    "loss sparse cross-entropy of sigmoid", "reduction sum_over_batch_size of every place, weights False",
    "reduction sum of every place, weights False", "reduction mean_with_sample_weight of every place, weights False",
    "reduction sum_over_batch_size of every place, weights True", "reduction sum, weights False",
    "reduction mean_with_sample_weight, weights False",
}  # fmt: skip
assert _SLOW <= {case.name for case in CASES}


@pytest.mark.fast("batch norm frozen", "optimizer AdamW amsgrad clipnorm", "L2, gathered")
@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.name in _SLOW else []) for case in CASES]
)
def test_a_plan_gives_the_losses_and_weights_of_one_device_and_lies_as_it_says(case: Case, clusters: dict[int, Any]) -> None:
    keras.config.set_floatx("float64")
    model = case.build()
    plan, cluster = case.plan(model, clusters)
    assert_transparent(model, plan, cluster, case.optimizer, case.loss, case.steps(model), not case.graph_mode)


def _zeros_at_the_kinks() -> keras.Model:
    """Rectifiers of exact zeros and of exact thresholds: the input is all zeros and ones."""
    layers = keras.layers
    i = keras.Input((4, 4, 2))
    x = layers.Conv2D(6, 1, kernel_initializer="ones", name="first")(i)
    x = layers.ReLU(max_value=6.0)(x)
    x = layers.Conv2D(4, 1, kernel_initializer="ones", name="second")(x)
    x = layers.ReLU(negative_slope=0.2, threshold=6.0)(x)
    return keras.Model(i, layers.Dense(3, name="head")(layers.GlobalAveragePooling2D()(x)))


@pytest.mark.slow
def test_rectifiers_agree_with_keras_where_their_slope_jumps(clusters: dict[int, Any]) -> None:
    keras.config.set_floatx("float64")
    model = _zeros_at_the_kinks()
    case = Case("kinks", _zeros_at_the_kinks, (2, 1, 1))
    plan, cluster = case.plan(model, clusters)
    steps = case.steps(model)
    x = [np.random.default_rng(i).integers(0, 2, batch.shape).astype(float) for i, batch in enumerate(steps.x)]
    x[0][:] = 0.0
    assert_transparent(model, plan, cluster, case.optimizer, case.loss, dataclasses.replace(steps, x=x))


def test_a_sigmoid_that_is_split_and_saturated_has_keras_loss_and_gradient(clusters: dict[int, Any]) -> None:
    keras.config.set_floatx("float64")
    model = nets.probabilities("sigmoid")
    model.get_layer("head").bias.assign([40.0, -40.0, 60.0, -60.0, 0.0])
    case = Case("saturated", nets.convs, (2, 1, 1), loss=_loss("BinaryCrossentropy"), target="binary", optimizer=_sgd(learning_rate=0.01))
    plan, cluster = case.plan(model, clusters)
    assert plan.stages[0].layouts[-1].layout == "column"
    assert_transparent(model, plan, cluster, case.optimizer, case.loss, case.steps(model), eager=False)


@pytest.mark.slow
@pytest.mark.parametrize("build", [nets.convs, nets.norms, nets.residual, nets.pools], ids=lambda build: build.__name__)
def test_in_float32_the_loss_of_each_step_is_that_of_one_device(build: nets.Build, clusters: dict[int, Any]) -> None:
    model = build()
    case = Case("float32", build)
    plan, cluster = case.plan(model, clusters)
    steps = case.steps(model)
    losses, _ = keras_run(model, case.optimizer(), case.loss(), steps)
    ours, _, placement = our_run(model, plan, cluster, case.optimizer(), case.loss(), steps)
    assert layer_graph(model).dtype == "float32"
    assert placement == expected_placement(layer_graph(model), plan)
    assert np.abs(np.subtract(losses, ours)).max() <= 1e-4


@pytest.mark.slow
@pytest.mark.fast("pairs")
@pytest.mark.parametrize("plan_kind", ["pairs", "gather"])
def test_a_batch_norm_called_with_training_false_is_what_keras_makes_of_it(plan_kind: str, clusters: dict[int, Any]) -> None:
    keras.config.set_floatx("float64")
    i = keras.Input((5, 5, 2))
    x = keras.layers.Conv2D(6, 3, name="first")(i)
    x = keras.layers.BatchNormalization(name="norm", momentum=0.5)(x, training=False)
    model = keras.Model(i, keras.layers.Dense(3, name="head")(keras.layers.Flatten()(x)))
    case = Case("norm", nets.convs, (3, 1), pairing=plan_kind)
    plan, cluster = case.plan(model, clusters)
    assert_transparent(model, plan, cluster, case.optimizer, case.loss, case.steps(model))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["filters", "equal"])
def test_the_papers_cifar_network_is_the_serial_one_under_70_25_5(strategy: str, clusters: dict[int, Any]) -> None:
    from models.paper_a import cifar

    keras.config.set_floatx("float64")
    model = cifar()
    cluster = clusters[3]
    plan = hm.Plan.filters(model, [70, 25, 5], cluster, 2) if strategy == "filters" else hm.Plan.equal(model, cluster, 2)
    if strategy == "filters":
        sizes = {layout.name: layout.sizes for layout in plan.stages[0].layouts if layout.sizes}
        assert sizes["conv1"] == sizes["conv2"] == (42, 15, 3)
        assert sizes["conv7"] == (336, 120, 24)
    case = Case("paper", cifar, batches=(2, 2))
    assert_transparent(model, plan, cluster, case.optimizer, case.loss, case.steps(model))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shares", "first"), [((40, 40, 20), (24, 24, 12)), pytest.param((70, 25, 5), (42, 15, 3), marks=pytest.mark.slow)]
)
def test_the_papers_mnist_network_is_the_serial_one_under_uneven_filters(
    shares: tuple[int, ...], first: tuple[int, ...], clusters: dict[int, Any]
) -> None:
    from models.paper_a import mnist

    keras.config.set_floatx("float64")
    model = mnist()
    plan = hm.Plan.filters(model, shares, clusters[3], 2)
    sizes = {layout.name: layout.sizes for layout in plan.stages[0].layouts if layout.sizes}
    assert sizes["conv1"] == sizes["conv2"] == first
    case = Case("paper", mnist, batches=(2, 2))
    assert_transparent(model, plan, clusters[3], case.optimizer, case.loss, case.steps(model))
