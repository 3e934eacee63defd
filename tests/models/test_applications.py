"""Networks of keras.applications, with weights of their own: readable as they are, and transparent in every layout that applies."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.keras_reading.layer_graph import layer_graph
from tests.cases import first_fast
from tests.program.oracle import Steps, keras_run, our_run, worst_error

# The images' extent: as small as leaves two places by two to the last batch norm; one place would make noise of 1e-16 one of 1e-8.
EXTENTS = {"VGG16": 32, "ResNet50": 33, "DenseNet121": 64, "MobileNetV2": 33, "EfficientNetB0": 33}
CLASSES = 10
PAIR = types.SimpleNamespace(devices=[types.SimpleNamespace(name=name) for name in ("fast", "slow")])


def _network(name: str, logits: bool = False) -> keras.Model:
    activation = None if logits else "softmax"
    shape = (EXTENTS[name], EXTENTS[name], 3)
    return getattr(keras.applications, name)(weights=None, input_shape=shape, classes=CLASSES, classifier_activation=activation)


@pytest.mark.slow
@pytest.mark.parametrize("name", first_fast(["ResNet50", "MobileNetV2", "VGG16", "DenseNet121", "EfficientNetB0"], 2))
def test_a_network_of_keras_applications_is_read_as_it_is(name: str) -> None:
    model = _network(name)
    graph = layer_graph(model)
    assert graph.layers[-1].output_shape == (CLASSES,)
    held = sum(v.size for layer in graph.layers for v in layer.variables)
    assert held == sum(int(np.prod(v.shape)) for v in model.weights if v.name != "count")
    plan = hm.Plan.filters(model, [3, 1], PAIR, 2)
    assert {"column", "row", "split"} <= {layout.layout for layout in plan.stages[0].layouts}
    assert hm.Plan.batch(model, [1, 1], PAIR, 2).stages[0].layouts[-1].layout == "batch"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with hm.Cluster.local(["cpu:0"] * 2) as made:
        yield made


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", EXTENTS)
def test_a_network_of_keras_applications_trains_as_on_one_device(name: str, cluster: Any) -> None:
    keras.config.set_floatx("float64")
    model = _network(name, logits=True)
    for layer in model.layers:
        if isinstance(layer, keras.layers.Dropout):
            layer.rate = 0.0  # Keras draws other masks
    rng = np.random.default_rng(5)
    draw = {"EfficientNetB0": lambda n: rng.uniform(0, 255, n)}.get(name, lambda n: rng.normal(size=n))
    steps = Steps([draw((4, *model.input_shape[1:])) for _ in range(2)], [rng.integers(0, CLASSES, 4) for _ in range(2)], [None] * 2)
    optimizer = lambda: keras.optimizers.SGD(0.001, momentum=0.9)  # noqa: E731
    loss = lambda: keras.losses.SparseCategoricalCrossentropy(from_logits=True)  # noqa: E731
    losses, weights = keras_run(model, optimizer(), loss(), steps, eager=False)
    plans = [hm.Plan.filters(model, [2, 1], cluster, 4), hm.Plan.batch(model, [2, 1], cluster, 4)]
    plans += [hm.Plan.single(model, 0, cluster, 4)] if name == "VGG16" else []  # what the others add is in the split plans
    for plan in plans:
        ours, trained, _ = our_run(model, plan, cluster, optimizer(), loss(), steps)
        assert np.abs(np.subtract(losses, ours)).max() <= 1e-8, (plan.strategy, losses, ours)
        assert worst_error(weights, trained) <= 1e-8, plan.strategy
