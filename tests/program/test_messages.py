"""Fewer messages give the numbers of one device: buckets of gradients, and batch norms whose synchronisations are merged."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from tests.program.oracle import Steps, assert_transparent

L = keras.layers
BATCH = 8


def _norm(x: Any, filters: int, window: int, name: str, **options: Any) -> Any:
    x = L.Conv2D(filters, window, padding="same", name=name, use_bias=False)(x)
    return L.BatchNormalization(name=f"{name}_norm", momentum=0.8, **options)(x)


def branched() -> keras.Model:
    """A residual block with a shortcut of its own, parallel branches of several depths, biases and a norm of vectors."""
    i = keras.Input((6, 5, 2))
    x = L.Activation("tanh")(_norm(i, 4, 3, "start"))
    shortcut = _norm(x, 6, 1, "shortcut", scale=False)
    main = _norm(L.Activation("tanh")(_norm(x, 5, 3, "main1")), 6, 3, "main2", center=False)
    x = L.Activation("tanh")(L.Add()([shortcut, main]))
    branches = [_norm(x, 3, 1, "a"), _norm(_norm(x, 4, 1, "b1"), 3, 3, "b2"), L.Conv2D(2, 1, name="c")(L.AveragePooling2D(2, 1, "same")(x))]
    x = L.Conv2D(4, 3, activation="tanh", name="last")(L.Concatenate()(branches))
    x = L.BatchNormalization(name="of_vectors")(L.Dense(6, name="hidden")(L.Flatten()(x)))
    model = keras.Model(i, L.Dense(3, name="head")(x))
    rng = np.random.default_rng(3)
    for variable in model.weights:
        value = rng.normal(0.0, 0.3, variable.shape)
        variable.assign(np.abs(value) + 0.5 if "variance" in variable.name or "gamma" in variable.name else value)
    return model


def steps() -> Steps:
    rng, sizes = np.random.default_rng(1), (BATCH, BATCH, 5)
    return Steps([rng.normal(size=(n, 6, 5, 2)) for n in sizes], [rng.integers(0, 3, n) for n in sizes], [None] * len(sizes))


def loss() -> Any:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


OPTIMIZERS = {
    "momentum": lambda: keras.optimizers.SGD(0.05, momentum=0.9),
    "clipped": lambda: keras.optimizers.SGD(0.05, global_clipnorm=0.5),
    "adam": lambda: keras.optimizers.Adam(0.01, epsilon=1e-3),
}


@pytest.fixture
def double() -> Any:
    keras.backend.set_floatx("float64")
    yield
    keras.backend.set_floatx("float32")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shares", "bucket_bytes", "optimizer"),
    [((2, 1), 256, "momentum"), ((2, 1), 10**6, "adam"), ((2, 1, 1), 0, "momentum"), ((1, 0, 3), 1000, "clipped")],
    ids=str,
)
def test_fused_gradients_and_merged_norms_are_numerically_one_device(
    double: None, shares: tuple[int, ...], bucket_bytes: int, optimizer: str
) -> None:
    model = branched()
    with hm.Cluster.local(["cpu:0"] * len(shares)) as cluster:
        plan = dataclasses.replace(hm.Plan.batch(model, shares, cluster, BATCH), bucket_bytes=bucket_bytes)
        assert_transparent(model, plan, cluster, OPTIMIZERS[optimizer], loss, steps())


def operations(model: keras.Model, shares: tuple[int, ...], bucket_bytes: int) -> list[Any]:
    """Return the operations of a training step's graph."""
    with hm.Cluster.local(["cpu:0"] * len(shares)) as cluster:
        plan = dataclasses.replace(hm.Plan.batch(model, shares, cluster, BATCH), bucket_bytes=bucket_bytes)
        with hm.Trainer(model, plan, cluster, optimizer="sgd", loss=loss()) as trainer:
            trainer.train_on_batch(np.zeros((BATCH, 6, 5, 2), "float32"), np.zeros(BATCH, "int32"))
            held: list[Any] = trainer._run.engine._tf_graph.get_operations()
            return held


def test_eight_batch_norms_of_which_two_pairs_need_not_wait_for_each_other_have_six_gathers() -> None:
    gathers = [op for op in operations(branched(), (2, 1), 0) if "/reshape" in op.name and op.type == "ConcatV2"]
    assert len({op.name.rsplit("/", 1)[0] for op in gathers}) == 6


@pytest.mark.slow
def test_all_small_gradients_are_in_one_bucket_and_without_buckets_in_none() -> None:
    model = branched()
    fused = [op for op in operations(model, (2, 1), 10**6) if "buckets" in op.name and op.type.startswith("Concat")]
    none = [op for op in operations(model, (2, 1), 0) if "buckets" in op.name]
    assert len(fused) == 2 and none == []


@pytest.mark.slow
def test_a_graph_of_one_device_has_no_operation_of_either() -> None:
    names = [op.name for op in operations(branched(), (1,), 10**6)]
    assert not any("buckets" in name or "own_statistics" in name for name in names)
