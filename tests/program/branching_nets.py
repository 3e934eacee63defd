"""Small networks with several inputs and outputs, layers that are called more than once, and models within models."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from tests.program.small_nets import _scatter

L = keras.layers
IMAGE = (5, 4, 2)


@dataclasses.dataclass(frozen=True)
class Ended:
    """A network, what it is trained for, and how its batches are made.

    Parameters
    ----------
    build : gives the model.
    targets : how each output's targets are drawn: "numbers", a number of classes, or None for an output without a loss.
    compiled : options of `keras.Model.compile` besides the optimizer.
    optimizer : gives the optimizer.
    weights : how sample weights are given: "none", "one" for all outputs, or "each".
    """

    build: Callable[[], keras.Model]
    targets: tuple[Any, ...]
    compiled: Callable[[], dict[str, Any]]
    optimizer: Callable[[], Any] = lambda: keras.optimizers.SGD(0.05, momentum=0.9)
    weights: str = "none"


def _entropy() -> Any:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _encoder(name: str = "encoder", rate: float = 0.0) -> keras.Model:
    """A functional model around a sequential one: convolutions, batch norm, a residual sum."""
    stem = keras.Sequential(
        [
            keras.Input(IMAGE),
            L.Conv2D(6, 3, padding="same", use_bias=False, name="conv1"),
            L.BatchNormalization(momentum=0.8, name="norm"),
            L.ReLU(),
        ],
        name="stem",
    )
    i = keras.Input(IMAGE)
    x = stem(i)
    x = L.Add()([x, L.Conv2D(6, 3, padding="same", activation="tanh", name="conv2")(x)])
    x = L.Dropout(rate)(x) if rate else x
    return keras.Model(i, L.Flatten()(L.Conv2D(4, 2, name="conv3")(x)), name=name)


def two_inputs() -> keras.Model:
    """An image and numbers, concatenated; the inputs' order is not that of their depths."""
    numbers, image = keras.Input((3,), name="numbers"), keras.Input(IMAGE, name="image")
    x = L.Flatten()(L.Conv2D(6, 3, strides=2, padding="same", activation="relu", name="conv")(image))
    x = L.Concatenate()([x, L.Dense(4, activation="relu", name="wide")(numbers), numbers])
    return _scatter(keras.Model([numbers, image], L.Dense(3, name="head")(L.Dense(6, activation="relu", name="hidden")(x))))


def two_outputs() -> keras.Model:
    """Classes and numbers from one trunk."""
    image = keras.Input(IMAGE)
    x = L.Flatten()(L.BatchNormalization(name="norm")(L.Conv2D(6, 3, activation="relu", name="conv")(image)))
    hidden = L.Dense(6, activation="relu", name="hidden")(x)
    return _scatter(keras.Model(image, [L.Dense(4, name="kind")(hidden), L.Dense(2, activation="sigmoid", name="size")(x)]))


def siamese() -> keras.Model:
    """Two images through one encoder, batch norm and all, at different depths."""
    left, right = keras.Input(IMAGE, name="left"), keras.Input(IMAGE, name="right")
    encoder = _encoder()
    a, b = encoder(right), encoder(L.Conv2D(2, 1, name="before")(left))
    return _scatter(keras.Model([left, right], L.Dense(1, name="head")(L.Concatenate()([a, b]))))


def nested() -> keras.Model:
    """A sequential model in a functional one in a functional one, with a model of its own for the head."""
    image = keras.Input(IMAGE)
    inner = keras.Input(IMAGE)
    outer = keras.Model(inner, L.Dense(6, activation="relu", name="hidden")(_encoder("deep")(inner)), name="outer")
    head = keras.Sequential([L.Dense(5, activation="relu", name="one"), L.Dense(3, name="two")], name="head")
    return _scatter(keras.Model(image, head(outer(image, training=False))))


def shared_convs() -> keras.Model:
    """A convolution and a batch norm called twice in a row, and an L2 penalty that counts once."""
    image = keras.Input(IMAGE)
    conv = L.Conv2D(2, 3, padding="same", kernel_regularizer=keras.regularizers.L2(0.1), name="conv")
    norm = L.BatchNormalization(momentum=0.7, gamma_regularizer=keras.regularizers.L2(0.05), name="norm")
    x = L.ReLU()(norm(conv(image)))
    x = L.Activation("tanh")(norm(conv(L.Conv2D(2, 1, name="between")(x))))
    return _scatter(keras.Model(image, L.Dense(3, name="end")(L.Flatten()(x))))


def dicts() -> keras.Model:
    """Inputs and outputs by name, whose sorted order is not the model's, and a nested model that takes and gives dicts."""
    p, q = keras.Input((4,), name="p"), keras.Input((4,), name="q")
    inner = keras.Model({"q": q, "p": p}, {"sum": L.Add()([p, q]), "far": L.Dense(5, activation="tanh", name="far")(q)}, name="mix")
    zeta, alpha = keras.Input((4,), name="zeta"), keras.Input((3,), name="alpha")
    mixed = inner({"p": L.Dense(4, name="enter")(alpha), "q": zeta})
    ends = {"z": L.Dense(3, name="first")(mixed["sum"]), "a": L.Dense(2, name="last")(L.Concatenate()([mixed["far"], zeta]))}
    return _scatter(keras.Model({"zeta": zeta, "alpha": alpha}, ends))


def on_the_way() -> keras.Model:
    """An output that is read on, one that is given twice, one that is an input, and one without a loss."""
    i = keras.Input((4,), name="i")
    middle = L.Dense(6, activation="tanh", name="middle")(i)
    end = L.Dense(3, name="end")(L.Dense(5, activation="relu", name="between")(middle))
    return _scatter(keras.Model(i, [middle, [end, end], i, L.Dense(2, name="idle")(middle)]))


def shared_dense() -> keras.Model:
    """One dense layer in a nested model and outside, then different heads."""
    i, j = keras.Input((6,)), keras.Input((6,))
    both = L.Dense(6, activation="tanh", kernel_regularizer=keras.regularizers.L2(0.1), name="both")
    inner = keras.Model(j, L.Dense(6, name="own")(both(j)), name="inner")
    x = inner(both(i))
    return _scatter(keras.Model(i, [L.Dense(2, name="left")(x), L.Dense(3, name="right")(both(x))]))


def two_sizes() -> keras.Model:
    """One convolution, its batch norm and a nested model over images of two sizes; the smaller one's mean is an output of its own."""
    large, small = keras.Input((6, 5, 2), name="large"), keras.Input((3, 4, 2), name="small")
    conv, norm = L.Conv2D(6, 3, padding="same", name="conv"), L.BatchNormalization(momentum=0.6, name="norm")
    any_size = keras.Input((None, None, 6))
    mean = keras.Model(any_size, L.GlobalAveragePooling2D()(L.Conv2D(4, 1, activation="relu", name="mix")(any_size)), name="mean")
    ends = [mean(norm(conv(image))) for image in (large, small)]
    return _scatter(keras.Model([large, small], [L.Dense(3, name="head")(L.Concatenate()(ends)), ends[1]]))


NETWORKS = {
    "two inputs": Ended(two_inputs, (3,), lambda: {"loss": _entropy()}, weights="one"),
    "two outputs": Ended(
        two_outputs,
        (4, "numbers"),
        lambda: {"loss": [_entropy(), "mse"], "loss_weights": [0.3, 2], "metrics": [["accuracy"], ["mae", "mse"]]},
        weights="each",
    ),
    "two outputs, one sample weight": Ended(
        two_outputs, (4, "numbers"), lambda: {"loss": {"size": "binary_crossentropy", "kind": _entropy()}}, weights="one"
    ),
    "one encoder, two images": Ended(siamese, ("numbers",), lambda: {"loss": "mse", "metrics": ["mae"]}),
    "images of two sizes": Ended(two_sizes, (3, "numbers"), lambda: {"loss": [_entropy(), "mse"], "loss_weights": [1.0, 0.4]}),
    "models within models": Ended(nested, (3,), lambda: {"loss": _entropy()}, lambda: keras.optimizers.Adam(0.01, epsilon=1e-3)),
    "called twice": Ended(shared_convs, (3,), lambda: {"loss": _entropy()}),
    "by name": Ended(
        dicts,
        ("numbers", 3),
        lambda: {"loss": {"z": _entropy(), "a": "mse"}, "loss_weights": {"z": 0.7, "a": 0.1}, "metrics": {"z": "accuracy"}},
    ),
    "outputs on the way": Ended(
        on_the_way,
        ("numbers", "numbers", 3, "numbers", None),
        lambda: {"loss": ["mse", ["mse", _entropy()], "mse", None]},
        lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1, epsilon=1e-3),
    ),
    "one layer, two heads": Ended(
        shared_dense,
        ("numbers", 3),
        lambda: {"loss": {"left": "mse", "right": _entropy()}, "loss_weights": {"right": 0.5, "left": 1.5}},
        lambda: keras.optimizers.SGD(0.05, global_clipnorm=0.3),
    ),
}  # fmt: skip


def batch_of(model: keras.Model, ended: Ended, size: int, seed: int) -> tuple[Any, Any, Any]:
    """Return samples, targets and sample weights, packed as the model packs them."""
    rng = np.random.default_rng(seed)

    def target(leaf: Any, kind: Any) -> Any:
        if kind is None:
            return np.zeros((size, *leaf.shape[1:]))
        return rng.normal(size=(size, *leaf.shape[1:])) if kind == "numbers" else rng.integers(0, kind, size)

    kinds = list(ended.targets)
    x = keras.tree.map_structure(lambda leaf: rng.normal(size=(size, *leaf.shape[1:])), model.input)
    y = keras.tree.pack_sequence_as(model.output, [target(leaf, kind) for leaf, kind in zip(model.outputs, kinds, strict=True)])
    weight = {
        "none": lambda: None,
        "one": lambda: rng.uniform(0, 2, size),
        "each": lambda: keras.tree.map_structure(lambda _: rng.uniform(0, 2, size), model.output),
    }[ended.weights]()
    return x, y, weight
