"""Words for elementwise functions and softmax."""

from __future__ import annotations

import dataclasses
import zlib

import tensorflow as tf

from hetero_mtf.mesh.operations import elementwise
from hetero_mtf.program.site import Site
from hetero_mtf.program.value import Value


class ActivationWords(Site):
    """Activations, scaling and dropout."""

    def activate(self, x: Value, name: str) -> Value:
        """Return the activation `name` of `x`; softmax needs the channels whole."""
        if name == "linear":
            return x
        y = elementwise.softmax(x.tensor) if name == "softmax" else elementwise.activate(x.tensor, name)
        return dataclasses.replace(x, tensor=y, logits=(x.tensor, name))

    def rectify(self, x: Value, max_value: float | None, negative_slope: float, threshold: float) -> Value:
        """Return max(x, 0) with Keras's optional ceiling, slope below the threshold, and threshold."""
        if max_value is None and not negative_slope and not threshold:
            return dataclasses.replace(x, tensor=elementwise.activate(x.tensor, "relu"), logits=None)

        def function(value: tf.Tensor) -> tf.Tensor:
            import keras

            return keras.activations.relu(value, negative_slope, max_value, threshold)  # Keras's own, also where the slope jumps

        return dataclasses.replace(x, tensor=elementwise.elementwise(x.tensor, "rectify", function), logits=None)

    def rescale(self, x: Value, scale: float, offset: float) -> Value:
        """Return `x * scale + offset`, both as Keras casts them to the dtype (through float32)."""
        function = lambda value: value * tf.cast(scale, value.dtype) + tf.cast(offset, value.dtype)  # noqa: E731
        tensor = elementwise.elementwise(x.tensor, "rescale", function)
        return dataclasses.replace(x, tensor=tensor, logits=None)

    def drop(self, x: Value, rate: float, seed: int | None) -> Value:
        """Return `x` with dropout in training; the mask's key is (seed, layer, step)."""
        if not self.training or not rate:
            return x
        key = zlib.crc32(repr((self.seed, self.index, seed)).encode()) & 0x7FFFFFFF
        mask_seed = tf.stack([tf.constant(key, tf.int32), self.step])
        return dataclasses.replace(x, tensor=elementwise.drop(x.tensor, rate, mask_seed), logits=None)
