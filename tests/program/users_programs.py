"""Networks as people write them, small: each with its loss and data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

L = keras.layers
O = keras.ops  # noqa: E741
Program = tuple[Any, Any, Any, Any]  # model, loss, x, y
BATCH = 4


def _block(x: Any, filters: int, rank: int) -> Any:
    conv = getattr(L, f"Conv{rank}D")
    for _ in range(2):
        x = L.Activation("relu")(L.BatchNormalization()(conv(filters, 3, padding="same", use_bias=False)(x)))
    return x


def unet(rank: int, rng: np.random.Generator) -> Program:
    """A U-Net with a Dice loss."""
    size = (8,) * rank
    i = keras.Input((*size, 1))
    down = _block(i, 4, rank)
    # TensorFlow has no pooling of float64 volumes
    smaller = L.MaxPooling2D(2)(down) if rank == 2 else L.Conv3D(4, 2, strides=2)(down)
    deep = _block(smaller, 8, rank)
    up = getattr(L, f"Conv{rank}DTranspose")(4, 2, strides=2)(deep)
    x = _block(L.Concatenate()([up, down]), 4, rank)
    x = getattr(L, f"Conv{rank}D")(1, 1, activation="sigmoid")(x)
    volumes = rng.normal(size=(BATCH, *size, 1))
    return keras.Model(i, x), keras.losses.Dice(), volumes, (volumes > 0.5) * 1.0


class Patches(L.Layer):
    """Learnt positions added to patches."""

    def __init__(self, count: int, width: int, **options: Any) -> None:
        super().__init__(**options)
        self.count, self.width = count, width
        self.project = L.Dense(width)
        self.positions = L.Embedding(count, width)

    def call(self, patches: Any) -> Any:
        return self.project(patches) + self.positions(O.expand_dims(O.arange(0, self.count), 0))


def vit(rng: np.random.Generator) -> Program:
    """A vision transformer."""
    i = keras.Input((8, 8, 3))
    x = L.Reshape((16, 12))(L.Conv2D(12, 2, strides=2)(i))
    x = Patches(16, 8)(x)
    for _ in range(2):
        normal = L.LayerNormalization(epsilon=1e-6)(x)
        x = L.Add()([L.MultiHeadAttention(2, 4)(normal, normal), x])
        normal = L.LayerNormalization(epsilon=1e-6)(x)
        x = L.Add()([L.Dense(8)(L.Dense(16, activation="gelu")(normal)), x])
    x = L.GlobalAveragePooling1D()(L.LayerNormalization()(x))
    return keras.Model(i, L.Dense(5, activation="softmax")(x)), "sparse_categorical_crossentropy", *_classes(rng, (8, 8, 3), 5)


class Scaled(L.Layer):
    """The scale of a ConvNeXt block, as it is copied everywhere."""

    def build(self, shape: Any) -> None:
        self.gamma = self.add_weight(shape=(shape[-1],), initializer=keras.initializers.Constant(0.1), name="gamma")

    def call(self, x: Any) -> Any:
        return x * self.gamma


def convnext(rng: np.random.Generator) -> Program:
    """A ConvNeXt of two blocks."""
    i = keras.Input((8, 8, 3))
    x = L.LayerNormalization(epsilon=1e-6)(L.Conv2D(6, 2, strides=2)(i))
    for _ in range(2):
        y = L.LayerNormalization(epsilon=1e-6)(L.DepthwiseConv2D(3, padding="same")(x))
        y = L.Dense(6)(L.Activation("gelu")(L.Dense(24)(y)))
        x = x + Scaled()(y)
    x = L.LayerNormalization(epsilon=1e-6)(L.GlobalAveragePooling2D()(x))
    return keras.Model(i, L.Dense(4)(x)), keras.losses.SparseCategoricalCrossentropy(from_logits=True), *_classes(rng, (8, 8, 3), 4)


def mixer(rng: np.random.Generator) -> Program:
    """An MLP-Mixer."""
    i = keras.Input((8, 8, 3))
    x = L.Reshape((16, 8))(L.Conv2D(8, 2, strides=2)(i))
    for _ in range(2):
        y = O.transpose(L.LayerNormalization()(x), (0, 2, 1))
        x = x + O.transpose(L.Dense(16)(O.gelu(L.Dense(12)(y))), (0, 2, 1))
        x = x + L.Dense(8)(O.gelu(L.Dense(12)(L.LayerNormalization()(x))))
    return keras.Model(i, L.Dense(3)(O.mean(x, axis=1))), "mse", rng.normal(size=(BATCH, 8, 8, 3)), rng.normal(size=(BATCH, 3))


def conv_lstm(rng: np.random.Generator) -> Program:
    """Frames to the next frame."""
    i = keras.Input((3, 6, 6, 1))
    x = L.BatchNormalization()(L.ConvLSTM2D(3, 3, padding="same", return_sequences=True)(i))
    x = L.ConvLSTM2D(2, 3, padding="same")(x)
    x = L.Conv2D(1, 3, padding="same", activation="sigmoid")(x)
    return keras.Model(i, x), "binary_crossentropy", rng.random((BATCH, 3, 6, 6, 1)), rng.random((BATCH, 6, 6, 1))


def se_resnet(rng: np.random.Generator) -> Program:
    """A residual network with squeeze-and-excitation."""
    i = keras.Input((8, 8, 3))
    x = L.Conv2D(8, 3, padding="same")(i)
    for _ in range(2):
        y = _block(x, 8, 2)
        s = L.GlobalAveragePooling2D(keepdims=True)(y)
        s = L.Dense(8, activation="sigmoid")(L.Dense(2, activation="relu")(s))
        x = L.Activation("relu")(x + y * s)
    x = L.Dense(4, kernel_regularizer=keras.regularizers.L1L2(1e-4, 1e-4))(L.GlobalMaxPooling2D()(x))
    return keras.Model(i, x), keras.losses.SparseCategoricalCrossentropy(from_logits=True), *_classes(rng, (8, 8, 3), 4)


def two_towers(rng: np.random.Generator) -> Program:
    """Two inputs through the same layers, and their similarity."""
    a, b = keras.Input((6, 6, 2), name="a"), keras.Input((6, 6, 2), name="b")
    tower = keras.Sequential([L.Conv2D(4, 3, activation="relu"), L.Flatten(), L.Dense(5), L.UnitNormalization()])
    x = O.sum(tower(a) * tower(b), axis=-1, keepdims=True)
    data = {name: rng.normal(size=(BATCH, 6, 6, 2)) for name in ("a", "b")}
    return keras.Model({"a": a, "b": b}, L.Dense(1, activation="sigmoid")(x)), "binary_crossentropy", data, rng.integers(0, 2, (BATCH, 1))


class Sampled(L.Layer):
    """The divergence of a variational autoencoder, added to the loss; the mean stands for a draw."""

    def call(self, inputs: Any) -> Any:
        mean, log_variance = inputs
        kl = -0.5 * O.mean(O.sum(1 + log_variance - O.square(mean) - O.exp(log_variance), axis=-1))
        self.add_loss(0.01 * kl)
        return mean + 0.1 * O.exp(0.5 * log_variance)


def vae(rng: np.random.Generator) -> Program:
    """A variational autoencoder with `add_loss`."""
    i = keras.Input((8, 8, 1))
    x = L.Flatten()(L.Conv2D(4, 3, strides=2, activation="relu", padding="same")(i))
    z = Sampled()([L.Dense(3)(x), L.Dense(3)(x)])
    x = L.Reshape((4, 4, 2))(L.Dense(32, activation="relu")(z))
    x = L.Conv2DTranspose(1, 3, strides=2, padding="same", activation="sigmoid")(x)
    images = rng.random((BATCH, 8, 8, 1))
    return keras.Model(i, x), "binary_crossentropy", images, images


def text(rng: np.random.Generator) -> Program:
    """A text classifier of embedded words."""
    i = keras.Input((12,), dtype="int32")
    x = L.Conv1D(6, 3, activation="relu", padding="same")(L.Embedding(20, 5)(i))
    x = L.MaxPooling1D(2)(x)
    x = L.Dense(4, activation="relu")(L.GlobalMaxPooling1D()(L.Conv1D(6, 3, activation="relu")(x)))
    return (
        keras.Model(i, L.Dense(1, activation="sigmoid")(x)),
        "binary_crossentropy",
        rng.integers(0, 20, (BATCH, 12)),
        rng.integers(0, 2, (BATCH, 1)),
    )


def multi_task(rng: np.random.Generator) -> Program:
    """One trunk, a class and a mask."""
    i = keras.Input((8, 8, 1))
    x = _block(i, 4, 2)
    mask = L.Conv2D(1, 1, activation="sigmoid", name="mask")(x)
    label = L.Dense(3, activation="softmax", name="label")(L.GlobalAveragePooling2D()(x))
    images, labels = _classes(rng, (8, 8, 1), 3)
    losses = {"mask": keras.losses.Tversky(alpha=0.3, beta=0.7), "label": "sparse_categorical_crossentropy"}
    return keras.Model(i, {"mask": mask, "label": label}), losses, images, {"mask": (images > 0) * 1.0, "label": labels}


def _classes(rng: np.random.Generator, shape: tuple[int, ...], count: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(size=(BATCH, *shape)), rng.integers(0, count, BATCH)


PROGRAMS: Mapping[str, Callable[[np.random.Generator], Program]] = {
    "2-D U-Net": lambda rng: unet(2, rng),
    "3-D U-Net": lambda rng: unet(3, rng),
    "ViT": vit,
    "ConvNeXt": convnext,
    "MLP-Mixer": mixer,
    "conv-LSTM": conv_lstm,
    "SE-ResNet": se_resnet,
    "two towers": two_towers,
    "VAE": vae,
    "text": text,
    "multi-task": multi_task,
}
