"""A training that tries plans as it goes leaves what the training on one device leaves: weights, slots, metrics, History, callbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import hetero_mtf as hm
from hetero_mtf.errors import HeteroError
from hetero_mtf.planning.exploration.plan_history import PlanHistory, PlanSpan
from tests.training.distribution.comparison import made, state

BATCH, SAMPLES, EPOCHS = 8, 40, 3
MOVES_AT = (2, 4, 7, 9, 12)
L = keras.layers
WITH_CLASSES = "sparse_categorical_crossentropy"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with hm.Cluster.local(["cpu:0"] * 2) as made_cluster:
        yield made_cluster


def compiled(inputs: Any, outputs: Any, optimizer: Any = None, loss: Any = WITH_CLASSES) -> keras.Model:
    model = keras.Model(inputs, outputs)
    model.compile(optimizer or keras.optimizers.SGD(0.05, momentum=0.9), loss, metrics=["accuracy"])
    return model


def with_dropout() -> keras.Model:
    i = keras.Input((6, 6, 2))
    x = L.Dropout(0.3)(L.Conv2D(6, 3, activation="relu")(i))
    return compiled(i, L.Dense(3, activation="softmax")(L.Dropout(0.5)(L.Flatten()(x))))


def with_batch_norm() -> keras.Model:
    i = keras.Input((6, 6, 2))
    x = L.ReLU()(L.BatchNormalization()(L.Conv2D(6, 3, use_bias=False)(i)))
    x = L.Add()([x, L.BatchNormalization()(L.Conv2D(6, 3, padding="same", use_bias=False)(x))])
    return compiled(i, L.Dense(3, activation="softmax")(L.GlobalAveragePooling2D()(x)), keras.optimizers.Adam(1e-3))


def with_lstm() -> keras.Model:
    i = keras.Input((6, 4))
    return compiled(i, L.Dense(3, activation="softmax")(L.LSTM(5)(L.LSTM(6, return_sequences=True)(i))))


def with_shared_layers() -> keras.Model:
    one, other = keras.Input((6, 6, 2), name="one"), keras.Input((6, 6, 2), name="other")
    shared = L.Conv2D(6, 3, activation="relu")
    x = L.Concatenate()([L.Flatten()(shared(each)) for each in (one, other)])
    return compiled({"one": one, "other": other}, L.Dense(3, activation="softmax")(L.Dense(8, activation="relu")(x)))


def with_two_outputs() -> keras.Model:
    i = keras.Input((6, 6, 2))
    x = L.Flatten()(L.Conv2D(6, 3, activation="relu")(i))
    outputs = {"kind": L.Dense(3, activation="softmax", name="kind")(x), "size": L.Dense(1, name="size")(x)}
    model = keras.Model(i, outputs)
    model.compile("rmsprop", {"kind": WITH_CLASSES, "size": "mse"}, loss_weights={"kind": 1.0, "size": 0.3}, metrics={"kind": ["accuracy"]})
    return model


def in_three_dimensions() -> keras.Model:
    i = keras.Input((5, 5, 5, 1))
    x = L.Conv3D(4, 2, strides=2, activation="relu")(L.Conv3D(4, 2, activation="relu")(i))
    return compiled(i, L.Dense(3, activation="softmax")(L.Flatten()(x)))


def with_attention() -> keras.Model:
    i = keras.Input((6, 8))
    x = L.LayerNormalization()(L.Add()([i, L.MultiHeadAttention(2, 4)(i, i)]))
    return compiled(i, L.Dense(3, activation="softmax")(L.GlobalAveragePooling1D()(x)), keras.optimizers.AdamW(1e-3))


def with_embedding() -> keras.Model:
    i = keras.Input((6,), dtype="int32")
    return compiled(i, L.Dense(3, activation="softmax")(L.Conv1D(6, 3, activation="relu")(L.Embedding(11, 4)(i))[:, 0]))


def with_upsampling() -> keras.Model:
    i = keras.Input((6, 6, 2))
    x = L.Conv2D(6, 3, strides=2, padding="same", activation="relu")(i)
    x = L.Concatenate()([i, L.Conv2DTranspose(4, 3, strides=2, padding="same")(x)])
    return compiled(i, L.Conv2D(3, 1, activation="softmax")(x), keras.optimizers.SGD(0.05))


def with_separable_layers() -> keras.Model:
    i = keras.Input((6, 6, 4))
    x = L.DepthwiseConv2D(3)(L.SeparableConv2D(6, 3, padding="same", activation="relu")(i))
    return compiled(i, L.Dense(3, activation="softmax", kernel_regularizer="l2")(L.Flatten()(x)))


NETWORKS: dict[str, Callable[[], keras.Model]] = {
    "dropout": with_dropout,
    "batch norm": with_batch_norm,
    "lstm": with_lstm,
    "shared layers": with_shared_layers,
    "two outputs": with_two_outputs,
    "3-D": in_three_dimensions,
    "attention": with_attention,
    "embedding": with_embedding,
    "up-sampling": with_upsampling,
    "separable": with_separable_layers,
}


def arrays(model: keras.Model) -> tuple[Any, Any]:
    """Return samples and targets for a network."""
    rng = np.random.default_rng(0)

    def samples(tensor: Any) -> np.ndarray:
        shape = (SAMPLES, *tensor.shape[1:])
        return rng.integers(0, 11, shape) if tensor.dtype == "int32" else rng.normal(size=shape)

    def targets(tensor: Any) -> np.ndarray:
        shape = (SAMPLES, *tensor.shape[1:-1])
        return rng.integers(0, 3, shape) if tensor.shape[-1] == 3 else rng.normal(size=(*shape, 1))

    x = {tensor.name: samples(tensor) for tensor in model.inputs} if len(model.inputs) > 1 else samples(model.inputs[0])
    outputs = model.output
    return x, {name: targets(tensor) for name, tensor in outputs.items()} if isinstance(outputs, dict) else targets(outputs)


class Batches(keras.utils.PyDataset):
    """Batches by their number."""

    def __init__(self, x: Any, y: Any) -> None:
        super().__init__()
        self.x, self.y = x, y

    def __len__(self) -> int:
        return SAMPLES // BATCH

    def __getitem__(self, index: int) -> Any:
        return keras.tree.map_structure(lambda array: array[index * BATCH : (index + 1) * BATCH], (self.x, self.y))


class Seen(keras.callbacks.Callback):
    """Notes what callbacks see, and when."""

    def __init__(self) -> None:
        super().__init__()
        self.sequence: list[Any] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.sequence.append(("epoch begins", epoch))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.sequence.append(("batch", batch, sorted(logs), float(logs["loss"])))

    def on_test_end(self, logs: Any = None) -> None:
        self.sequence.append(("test", sorted(logs)))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.sequence.append(("epoch ends", epoch, sorted(logs), int(self.model.optimizer.iterations)))


def plans(model: keras.Model, cluster: Any, most: int = 6) -> list[hm.Plan]:
    """Return plans of a network, the first on one device, none like the one before."""
    makers = (
        lambda: hm.Plan.single(model, 0, cluster, BATCH),
        lambda: hm.Plan.batch(model, (3, 1), cluster, BATCH),
        lambda: hm.Plan.filters(model, (2, 1), cluster, BATCH),
        lambda: hm.Plan.single(model, 1, cluster, BATCH),
        lambda: hm.Plan.hybrid(model, (1, 2), cluster, BATCH),
        lambda: hm.Plan.batch(model, (1, 2), cluster, BATCH),
    )
    possible = []
    for make in makers:
        try:
            possible.append(make())
        except HeteroError:  # nothing of the network can be split like that
            continue
    return [possible[at % len(possible)] for at in range(most)]


def fitted(make: Callable[[], keras.Model], cluster: Any, moves: bool, form: str) -> tuple[Any, list[Any], Any, int]:
    """Return History, what callbacks saw, the state of the model, and the number of moves."""
    model = made(make)
    x, y = arrays(model)
    of_network = plans(model, cluster)
    spans = [PlanSpan(0, of_network[0]), *(PlanSpan(at, plan) for at, plan in zip(MOVES_AT, of_network[1:]) if moves)]
    model = hm.distribute(model, cluster, measure=PlanHistory(tuple(spans)), seed=5)
    seen = Seen()
    options: dict[str, Any] = {"epochs": EPOCHS, "verbose": 0, "callbacks": [seen], "shuffle": False}
    options |= {"validation_data": (x, y), "validation_batch_size": BATCH}
    if form == "arrays":
        history = model.fit(x, y, batch_size=BATCH, **options)
    else:
        stream = Batches(x, y) if form == "PyDataset" else tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)
        history = model.fit(stream, **options)
    distribution = hm.distribution(model)
    assert distribution is not None
    number = len(distribution.moves)
    after = state(model)
    hm.undistribute(model)
    return history.history, seen.sequence, after, number


def compare(make: Callable[[], keras.Model], cluster: Any, form: str, tolerance: float) -> None:
    history, seen, (weights, slots, steps), moves = fitted(make, cluster, True, form)
    one_history, one_seen, (one_weights, one_slots, one_steps), none = fitted(make, cluster, False, form)
    assert moves >= 4 and none == 0 and steps == one_steps == EPOCHS * SAMPLES // BATCH
    assert history.keys() == one_history.keys()
    for name, values in one_history.items():
        np.testing.assert_allclose(history[name], values, rtol=tolerance, atol=tolerance)
    assert [entry[:-1] if entry[0] == "batch" else entry for entry in seen] == [e[:-1] if e[0] == "batch" else e for e in one_seen]
    losses, one_losses = ([entry[-1] for entry in each if entry[0] == "batch"] for each in (seen, one_seen))
    np.testing.assert_allclose(losses, one_losses, rtol=max(tolerance, 1e-6), atol=tolerance)  # logs of batches are float32
    for one, other in zip([*weights, *slots], [*one_weights, *one_slots], strict=True):
        assert np.abs(one - other).max(initial=0.0) / (np.abs(other).max(initial=0.0) + 1e-3) <= tolerance


@pytest.mark.slow
@pytest.mark.fast("arrays-batch norm")
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("form", ["arrays", "tf.data", "PyDataset"])
def test_a_training_that_tries_plans_is_that_of_one_device(form: str, name: str, cluster: Any) -> None:
    keras.config.set_floatx("float64")
    compare(NETWORKS[name], cluster, form, 1e-8)


@pytest.mark.slow
def test_a_training_in_mixed_precision_that_tries_plans_is_that_of_one_device_to_its_precision(cluster: Any) -> None:
    keras.config.set_dtype_policy("mixed_bfloat16")
    compare(with_dropout, cluster, "arrays", 0.05)
