"""Operations for scaling and shifting by numbers that no optimizer updates."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations.compute import compute
from hetero_mtf.program.ops.layer_context import LayerContext
from hetero_mtf.program.ops.value import Value


class ScalingOps(LayerContext):
    """Rescaling and normalisation by fixed numbers."""

    def rescale(self, x: Value, scale: float | Sequence[float], offset: float | Sequence[float]) -> Value:
        """Return `x * scale + offset`, by one number or one per channel."""
        factors, shifts = (self._per_channel(x, value) for value in (scale, offset))
        tensors = [x.tensor, *(t for t in (factors, shifts) if t is not None)]

        def function(value: tf.Tensor, *numbers: tf.Tensor) -> tf.Tensor:
            remaining = iter(numbers)
            factor = tf.constant(scale, value.dtype) if factors is None else next(remaining)
            return value * factor + (tf.constant(offset, value.dtype) if shifts is None else next(remaining))

        return dataclasses.replace(x, tensor=compute("rescale", function, tensors, x.tensor.shape), logits=None)

    def standardize(self, x: Value, axis: Sequence[int], mean: Any, variance: Any, invert: bool) -> Value:
        """Return (x - mean) / sqrt(variance), or the inverse.

        Parameters
        ----------
        axis : dimensions that mean and variance have, the batch being 0.
        mean, variance : numbers, taken through float32 as Keras does, or None for the layer's variables `mean` and `variance`.
        """
        dimensions = x.tensor.shape.dims
        axes = list(range(1, len(dimensions))) if x.features > 1 and axis else list(axis)
        own = [dimensions[i] for i in axes]
        if mean is None:
            statistics = [self.parameter(name, own) for name in ("mean", "variance")]
        else:
            statistics = [self._numbers(x, np.asarray(value, np.float32), own) for value in (mean, variance)]

        def function(value: tf.Tensor, m: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
            narrow = [n if i in axes else 1 for i, n in enumerate(value.shape.as_list())]
            m, v = tf.reshape(m, narrow), tf.reshape(v, narrow)
            deviation = tf.maximum(tf.sqrt(v), tf.cast(keras.config.epsilon(), v.dtype))
            return m + value * deviation if invert else (value - m) / deviation

        tensors = [x.tensor, *(mtf.stop_gradient(statistic) for statistic in statistics)]
        return dataclasses.replace(x, tensor=compute("standardize", function, tensors, x.tensor.shape), logits=None)

    def _per_channel(self, x: Value, value: float | Sequence[float]) -> Tensor | None:
        """Return a list of numbers as a tensor [*channels], None for a single number."""
        return self._numbers(x, np.asarray(value, float), x.feature_dims) if isinstance(value, (list, tuple)) else None

    def _numbers(self, x: Value, array: np.ndarray, dimensions: Sequence[mtf.Dimension]) -> Tensor:
        """Return numbers as a tensor of dimensions of `x`, broadcast as NumPy does."""
        shape = [d.size for d in dimensions]
        keras_shape = [math.prod(shape)] if x.features > 1 and shape else shape
        array = np.broadcast_to(array.astype(self.dtype.as_numpy_dtype), keras_shape).reshape(shape)
        return mtf.import_tf_tensor(self.mesh, tf.constant(array), mtf.Shape(list(dimensions)))
