"""Attention on slices: scores of queries with keys, and means of values by weights; positions are whole."""

from __future__ import annotations

import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations.compute import compute
from hetero_mtf.mesh.operations.convolution.conv import bilinear
from hetero_mtf.mesh.operations.local import Processor


def scores(query: Tensor, key: Tensor) -> Tensor:
    """Return the scalar products of all queries with all keys, [batch, positions, keys]; laid-out channels give partial sums.

    Parameters
    ----------
    query : [batch, positions, channels].
    key : [batch, keys, channels].
    """
    (batch, positions, _), keys = query.shape.dims, key.shape.dims[1]
    return bilinear("scores", _Scores(), query, key, mtf.Shape([batch, positions, keys]), [positions, keys])


def mean(weights: Tensor, value: Tensor) -> Tensor:
    """Return the sums of all values by weights, [batch, positions, channels], in any layout of the channels.

    Parameters
    ----------
    weights : [batch, positions, keys].
    value : [batch, keys, channels].
    """
    (batch, positions, keys), channels = weights.shape.dims, value.shape.dims[2]
    return bilinear("attention", _Mean(), weights, value, mtf.Shape([batch, positions, channels]), [positions, keys])


def times(x: Tensor, number: Tensor) -> Tensor:
    """Return `x` times a number [], in any layout."""
    return compute("times", lambda value, factor: value * factor, [x, number], x.shape)


class _Scores:
    """q k' of each sample."""

    def forward(self, _: Processor, query: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
        return tf.matmul(query, key, transpose_b=True)

    def input_gradient(self, _: Processor, key: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        return tf.matmul(dy, key)

    def kernel_gradient(self, _: Processor, query: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        return tf.matmul(dy, query, transpose_a=True)


class _Mean:
    """w v of each sample."""

    def forward(self, _: Processor, weights: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
        return tf.matmul(weights, value)

    def input_gradient(self, _: Processor, value: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        return tf.matmul(dy, value, transpose_b=True)

    def kernel_gradient(self, _: Processor, weights: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        return tf.matmul(weights, dy, transpose_a=True)
