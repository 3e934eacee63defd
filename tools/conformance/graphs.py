"""Functional graphs drawn at random over layers, operators and functions of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from tools.conformance.compare import BATCH, Batches, sgd

L = keras.layers
O = keras.ops  # noqa: E741
Draw = Callable[[np.random.Generator, Any], Any]

# Of a tensor with a batch, positions in one or two dimensions, and channels; all keep that form.
_ANY: Sequence[Draw] = (
    lambda rng, x: L.Dense(int(rng.integers(2, 7)), activation=str(rng.choice(["linear", "relu", "tanh", "gelu"])))(x),
    lambda rng, x: L.LayerNormalization()(x),
    lambda rng, x: L.BatchNormalization()(x),
    lambda rng, x: L.Activation(str(rng.choice(["relu", "silu", "softplus", "softmax", "hard_sigmoid"])))(x),
    lambda rng, x: x * float(rng.normal()) + float(rng.normal()),
    lambda rng, x: 1.0 / (1.0 + O.square(x)),
    lambda rng, x: O.where(x > 0.1, x, 0.3 * O.sin(x)),
    lambda rng, x: O.maximum(x, O.tanh(x) - 0.2),
    lambda rng, x: x - O.mean(x, axis=-1, keepdims=True),
    lambda rng, x: x * O.sigmoid(O.mean(x, axis=1, keepdims=True)),
    lambda rng, x: O.concatenate(O.split(x, [1], axis=-1)[::-1], axis=-1) if x.shape[-1] > 1 else x,
    lambda rng, x: O.concatenate([x, O.relu(x)], axis=-1),
    lambda rng, x: L.UnitNormalization()(x),
    lambda rng, x: L.RMSNormalization()(x),
    lambda rng, x: L.GroupNormalization(_divisor(rng, int(x.shape[-1])))(x),
    lambda rng, x: L.Lambda(lambda t: t * 0.5)(x),
    lambda rng, x: x / (1.0 + O.std(x)),
    lambda rng, x: L.SpatialDropout1D(0.0)(x) if len(x.shape) == 3 else L.Dropout(0.0)(x),
    lambda rng, x: L.PReLU(shared_axes=list(range(1, len(x.shape) - 1)))(x),
    lambda rng, x: O.flip(x, axis=1),
    lambda rng, x: O.clip(x, -0.8, 0.9),
    lambda rng, x: x + L.Dense(int(x.shape[-1]))(O.stop_gradient(x)),
)
_STEPS: Sequence[Draw] = (
    lambda rng, x: L.Conv1D(int(rng.integers(2, 6)), 3, padding="same")(x),
    lambda rng, x: L.MaxPooling1D(2)(x) if x.shape[1] > 3 else x,
    lambda rng, x: L.MultiHeadAttention(int(rng.integers(1, 4)), 2)(x, x),
    lambda rng, x: L.GroupQueryAttention(2, 2 * int(rng.integers(1, 4)), 2)(x, x, use_causal_mask=bool(rng.integers(2))),
    lambda rng, x: L.GRU(3, return_sequences=True)(x),
    lambda rng, x: O.matmul(O.softmax(O.matmul(x, O.transpose(x, (0, 2, 1)))), x),
    lambda rng, x: O.transpose(L.Dense(int(x.shape[1]))(O.transpose(x, (0, 2, 1))), (0, 2, 1)),
    lambda rng, x: x[:, 1:, :] if x.shape[1] > 2 else x,
    lambda rng, x: L.Reshape((int(x.shape[1]), 1, int(x.shape[2])))(x),
)
_SPACE: Sequence[Draw] = (
    lambda rng, x: L.Conv2D(int(rng.integers(2, 6)), 3, padding="same", strides=int(rng.integers(1, 3)))(x),
    lambda rng, x: L.DepthwiseConv2D(3, padding="same")(x),
    lambda rng, x: L.AveragePooling2D(2, padding="same")(x),
    lambda rng, x: L.UpSampling2D((1, 2))(x) if x.shape[2] < 5 else x,
    lambda rng, x: L.ZeroPadding2D(1)(x) if x.shape[1] < 5 else L.Cropping2D(1)(x),
    lambda rng, x: L.Conv2D(int(x.shape[-1]), 3, padding="same", groups=_divisor(rng, int(x.shape[-1])))(x),
    lambda rng, x: x * L.Dense(int(x.shape[-1]), activation="sigmoid")(L.GlobalAveragePooling2D(keepdims=True)(x)),
    lambda rng, x: O.reshape(x, (-1, int(x.shape[1] * x.shape[2]), int(x.shape[3]))),
)
_TWO: Sequence[Callable[[Any, Any], Any]] = (
    lambda x, y: x + y,
    lambda x, y: x * y,
    lambda x, y: O.maximum(x, y) - x,
    lambda x, y: L.Concatenate()([x, y]),
    lambda x, y: L.Average()([x, y]),
)


def _divisor(rng: np.random.Generator, count: int) -> int:
    """Return a number that divides another."""
    return int(rng.choice([n for n in range(1, count + 1) if count % n == 0]))


def network(rng: np.random.Generator) -> keras.Model:
    """Return a network of 4 to 12 operations, drawn at random, that outputs in all that nothing else reads."""
    shape = tuple(int(n) for n in ((4, 4, 3) if rng.random() < 0.5 else (6, 4)))
    i = keras.Input(shape)
    tensors, read = [L.Dense(4)(i)], set[int]()
    for _ in range(int(rng.integers(4, 13))):
        at = int(rng.integers(max(0, len(tensors) - 3), len(tensors)))
        x = tensors[at]
        alike = [k for k, other in enumerate(tensors) if k != at and other.shape == x.shape]
        if alike and rng.random() < 0.35:
            other = int(rng.choice(alike))
            y = _TWO[int(rng.integers(len(_TWO)))](x, tensors[other])
            read.add(other)
        else:
            own = [*_ANY, *(_STEPS if len(x.shape) == 3 else _SPACE)]
            y = own[int(rng.integers(len(own)))](rng, x)
        read.add(at)
        tensors.append(y)
    outputs = [L.Flatten()(x) for k, x in enumerate(tensors) if k not in read]
    return keras.Model(i, L.Dense(2)(outputs[0] if len(outputs) == 1 else L.Concatenate()(outputs)))


def batches(model: keras.Model, rng: np.random.Generator, steps: int = 3) -> Batches:
    """Return data for a network here."""
    x = [rng.normal(size=(BATCH, *model.inputs[0].shape[1:])) for _ in range(steps)]
    return Batches(x, [rng.random((BATCH, 2)) for _ in range(steps)], lambda: "mse", sgd)
