"""Random networks of shared and nested pieces with several ends, under random plans: Keras on one device is the oracle."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.training.keras_side import clone
from tests.cases import first_fast
from tests.program.oracle import worst_error
from tests.program.small_nets import _scatter

L = keras.layers
SHAPE = (4, 3, 4)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with hm.Cluster.local(["cpu:0"] * 3) as made:
        yield made


def _piece(rng: random.Random, name: str) -> Any:
    """A layer or a model that turns values of one shape into values of the same shape."""
    kind = rng.choice(["conv", "norm", "dense", "relu", "stack", "model"])
    if kind == "conv":
        return L.Conv2D(4, rng.choice([1, 3]), padding="same", activation=rng.choice(["tanh", None]), name=name)
    if kind == "norm":
        return L.BatchNormalization(momentum=rng.choice([0.5, 0.9]), trainable=rng.random() < 0.8, name=name)
    if kind == "dense":
        return L.Dense(4, kernel_regularizer=keras.regularizers.L2(0.01) if rng.random() < 0.3 else None, name=name)
    if kind == "relu":
        return L.ReLU(name=name)
    if kind == "stack":
        return keras.Sequential([keras.Input(SHAPE), _piece(rng, f"{name}a"), _piece(rng, f"{name}b")], name=name)
    i, inner = keras.Input(SHAPE), _piece(rng, f"{name}c")
    return keras.Model(i, L.Add(name=f"{name}d")([inner(i), _piece(rng, f"{name}e")(inner(i))]), name=name)


def _network(seed: int) -> keras.Model:
    rng = random.Random(seed)
    inputs = [keras.Input(SHAPE, name=f"in{i}") for i in range(rng.randint(1, 2))]
    values: list[Any] = [L.Conv2D(4, 3, padding="same", name=f"first{at}")(tensor) for at, tensor in enumerate(inputs)]
    pieces = [_piece(rng, f"piece{number}") for number in range(3)]
    for number in range(rng.randint(3, 5)):
        if rng.random() < 0.3 and len(values) > 1:
            values.append(L.Average(name=f"mean{number}")(rng.sample(values, 2)))
        else:
            values.append(rng.choice(pieces)(rng.choice(values[-2:])))
    head = L.Dense(2, name="head")
    ends = [head(L.Flatten()(values[-1])), *rng.sample(values, rng.randint(0, 2))]
    return _scatter(keras.Model(*(part if len(part) > 1 else part[0] for part in (inputs, ends))))


def _plan(seed: int, model: keras.Model, cluster: Any) -> hm.Plan:
    rng = random.Random(seed)
    shares = rng.choice([[5, 2, 1], [1, 0, 2], [1, 1, 1]])
    if rng.random() < 0.5:
        return hm.Plan.batch(model, shares, cluster, 6)
    return hm.Plan.filters(model, shares, cluster, 6, pairing=rng.choice(["pairs", "gather"]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", first_fast(range(24), 2))
def test_any_network_of_shared_and_nested_pieces_trains_as_in_keras(seed: int, cluster: Any) -> None:
    keras.config.set_floatx("float64")
    model = _network(seed)
    numbers = np.random.default_rng(seed)
    oracle = clone(model)
    oracle.set_weights(model.get_weights())
    oracle.compile(keras.optimizers.SGD(0.01, momentum=0.9), "mse", run_eagerly=True, jit_compile=False)
    with hm.Trainer(model, _plan(seed, model, cluster), cluster, optimizer=keras.optimizers.SGD(0.01, momentum=0.9), loss="mse") as trainer:
        for size in (6, 4):
            x = [numbers.normal(size=(size, *SHAPE)) for _ in model.inputs]
            y = [numbers.normal(size=(size, *end.shape[1:])) for end in model.outputs]
            given = x if len(x) > 1 else x[0], y if len(y) > 1 else y[0]
            oracle.reset_metrics()
            expected = oracle.train_on_batch(*given, return_dict=True)["loss"]
            assert trainer.train_on_batch(*given) == pytest.approx(float(expected), rel=1e-9, abs=1e-9)
        assert worst_error(oracle.get_weights(), trainer.to_keras().get_weights()) <= 1e-8
