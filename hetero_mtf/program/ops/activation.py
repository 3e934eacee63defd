"""Operations for elementwise functions, softmax and dropout."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Sequence

import keras
import tensorflow as tf

from hetero_mtf.mesh.operations import elementwise
from hetero_mtf.program.ops.general import GeneralOps
from hetero_mtf.program.ops.value import Value


class ActivationOps(GeneralOps):
    """Activations and dropout."""

    def activate(self, x: Value, name: str) -> Value:
        """Return the activation `name` of `x`; softmax needs the channels whole."""
        if name == "linear":
            return x
        y = elementwise.softmax(x.tensor) if name == "softmax" else elementwise.activate(x.tensor, name)
        return dataclasses.replace(x, tensor=y, logits=(x.tensor, name))

    def leak(self, x: Value, slope: float) -> Value:
        """Return `x` where it is positive, `slope` times `x` elsewhere."""
        return dataclasses.replace(x, tensor=elementwise.leak(x.tensor, slope), logits=None)

    def activate_by(self, x: Value, name: str, **options: float | None) -> Value:
        """Return the function `name` of `keras.activations` with its options, elementwise."""

        def function(value: tf.Tensor) -> tf.Tensor:
            return getattr(keras.activations, name)(value, **options)

        return self.elementwise(x, function)

    def rectify_learnt(self, x: Value, alpha: str) -> Value:
        """Return max(x, 0) - alpha max(-x, 0), alpha a variable of the layer."""
        return self.compute(lambda value, slope: tf.nn.relu(value) - slope * tf.nn.relu(-value), [x], [alpha])

    def drop(self, x: Value, rate: float, seed: int | None, noise_shape: Sequence[int | None] | None = None) -> Value:
        """Return `x` with dropout in training; the mask's key is (seed, layer, step, microbatch).

        Parameters
        ----------
        noise_shape : (1 + rank,) extents of the mask, that of the batch first; 1 where it is shared, None for the extent of `x`.
        """
        if not self.training or not rate:
            return x
        mask_seed = self._draw_key(seed)
        dimensions = x.tensor.shape.dims
        noise = list(noise_shape or [None]) + [None] * (0 if noise_shape else len(dimensions) - 1)
        noise += [noise[-1]] * (len(dimensions) - len(noise))  # the dimensions that a split Flatten keeps
        shared = [dimension for dimension, n in zip(dimensions, noise) if n == 1]
        return dataclasses.replace(x, tensor=elementwise.drop(x.tensor, rate, mask_seed, shared), logits=None)

    def add_noise(self, x: Value, deviation: float, seed: int | None) -> Value:
        """Return `x` plus normal numbers of mean 0 in training; their key is that of a mask of `drop`."""
        if not self.training or not deviation:
            return x
        return dataclasses.replace(x, tensor=elementwise.noisy(x.tensor, deviation, self._draw_key(seed), "add"), logits=None)

    def multiply_noise(self, x: Value, deviation: float, seed: int | None) -> Value:
        """Return `x` times normal numbers of mean 1 in training; their key is that of a mask of `drop`."""
        if not self.training or not deviation:
            return x
        return dataclasses.replace(x, tensor=elementwise.noisy(x.tensor, deviation, self._draw_key(seed), "multiply"), logits=None)

    def _draw_key(self, seed: int | None) -> tf.Tensor:
        """Return the (2,) key of the present layer's draw: of seed, layer, step and microbatch."""
        parts = (self.seed, self.index, seed, *([self.microbatch] if self.microbatch else []))
        key = zlib.crc32(repr(parts).encode()) & 0x7FFFFFFF
        return tf.stack([tf.constant(key, tf.int32), self.step])
