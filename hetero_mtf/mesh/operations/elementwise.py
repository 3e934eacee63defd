"""Elementwise functions, softmax and dropout; all keep the shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations.compute import compute
from hetero_mtf.mesh.operations.local import Local, Processor

_Forward = Callable[[tf.Tensor], tf.Tensor]
_Backward = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]

# The forward function and the kernel of its gradient, in terms of the output y and its gradient dy.
_BY_OUTPUT: dict[str, tuple[_Forward, _Backward]] = {
    "relu": (tf.nn.relu, lambda y, dy: tf.raw_ops.ReluGrad(gradients=dy, features=y)),
    "sigmoid": (tf.sigmoid, lambda y, dy: tf.raw_ops.SigmoidGrad(y=y, dy=dy)),
    "tanh": (tf.tanh, lambda y, dy: tf.raw_ops.TanhGrad(y=y, dy=dy)),
    "relu6": (tf.nn.relu6, lambda y, dy: tf.raw_ops.Relu6Grad(gradients=dy, features=y)),
    "elu": (tf.nn.elu, lambda y, dy: tf.raw_ops.EluGrad(gradients=dy, outputs=y)),
    "selu": (tf.nn.selu, lambda y, dy: tf.raw_ops.SeluGrad(gradients=dy, outputs=y)),
    "exponential": (tf.exp, lambda y, dy: y * dy),
}

_SLOPE = 0.2  # Keras's, where none is given

_BY_INPUT: dict[str, _Forward] = {
    "softplus": tf.math.softplus,
    "softsign": tf.nn.softsign,
    "silu": tf.nn.silu,
    "gelu": lambda x: tf.nn.gelu(x, approximate=False),
}


def activate(x: Tensor, name: str) -> Tensor:
    """Return the elementwise activation `name` of `x`, any layout."""
    if name == "linear":
        return x
    if name == "leaky_relu":
        return leak(x, _SLOPE)
    if name in _BY_OUTPUT:
        return _by_output(x, name, *_BY_OUTPUT[name])
    return elementwise(x, name, _BY_INPUT.get(name) or _keras_function(name))


def _keras_function(name: str) -> _Forward:
    """Return a function of `keras.activations` with its default options."""

    def function(value: tf.Tensor) -> tf.Tensor:
        return getattr(keras.activations, name)(value)

    return function


def leak(x: Tensor, slope: float) -> Tensor:
    """Return `x` where it is positive and `slope` times `x` elsewhere, any layout.

    The output has the signs of `x`, so its gradient needs the output only.

    Parameters
    ----------
    slope : zero or more.
    """

    def forward(value: tf.Tensor) -> tf.Tensor:
        return tf.nn.leaky_relu(value, slope)

    def backward(y: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.LeakyReluGrad(gradients=dy, features=y, alpha=slope)

    return _by_output(x, "leaky_relu", forward, backward)


def _by_output(x: Tensor, name: str, forward: _Forward, backward: _Backward) -> Tensor:
    def gradient(operation: Local, dy: Tensor) -> Sequence[Tensor]:
        y = operation.outputs[0]
        return Local(f"{name}_gradient", lambda _, value, d: backward(value, d), [y, dy], [(x.shape, x.dtype)]).outputs

    return Local(name, lambda _, value: forward(value), [x], [(x.shape, x.dtype)], gradient=gradient).outputs[0]


def elementwise(x: Tensor, name: str, function: _Forward) -> Tensor:
    """Return an elementwise function of `x`, differentiated by TensorFlow on each slice.

    Parameters
    ----------
    function : tensor -> tensor of the same shape, each element depending on its own element only.
    """
    return compute(name, function, [x], x.shape)


def softmax(x: Tensor, used_with: Sequence[Tensor] = ()) -> Tensor:
    """Return the softmax of `x` over its last dimension, which must be whole.

    Parameters
    ----------
    used_with : tensors that the result is used with: a processor whose slice of one of them is empty gets zeros, which it must not
        read.
    """
    last = x.shape.dims[-1:]

    def forward(_: Processor, value: tf.Tensor, *__: tf.Tensor) -> tf.Tensor:
        return tf.nn.softmax(value)

    def backward(_: Processor, y: tf.Tensor, dy: tf.Tensor, *__: tf.Tensor) -> tf.Tensor:
        return (dy - tf.reduce_sum(dy * y, -1, keepdims=True)) * y

    def gradient(operation: Local, dy: Tensor) -> Sequence[Tensor | None]:
        read = [operation.outputs[0], dy, *used_with]
        return [*Local("softmax_gradient", backward, read, [(x.shape, x.dtype)], unsplit=last).outputs, *(None for _ in used_with)]

    return Local("softmax", forward, [x, *used_with], [(x.shape, x.dtype)], unsplit=last, gradient=gradient).outputs[0]


def drop(x: Tensor, rate: float, seed: tf.Tensor, shared: Sequence[mtf.Dimension] = ()) -> Tensor:
    """Return `x` with each element zeroed with probability `rate` and the rest scaled by 1 / (1 - rate).

    The mask is drawn for the whole tensor from `seed` alone and then sliced, so it is the same
    under every layout, and the gradient draws the same mask again.

    Parameters
    ----------
    rate : probability in [0, 1].
    seed : (2,) int32, the key of this draw.
    shared : dimensions along which all elements share one draw.
    """
    dimensions = x.shape.dims
    drawn_shape = [1 if dimension in shared else dimension.size for dimension in dimensions]

    def mask(p: Processor, value: tf.Tensor) -> tf.Tensor:
        drawn = tf.random.stateless_uniform(drawn_shape, seed, dtype=value.dtype if value.dtype.size > 2 else tf.float32)
        begins = [0 if dimension in shared else begin for dimension, begin in zip(dimensions, p.begins[0])]
        extents = [1 if dimension in shared else extent for dimension, extent in zip(dimensions, p.shapes[0])]
        own = tf.slice(drawn, begins, extents)
        return tf.where(own >= rate, value / (1.0 - rate), tf.zeros_like(value)) if rate < 1 else tf.zeros_like(value)

    def gradient(_: Local, dy: Tensor) -> Sequence[Tensor]:
        return Local("dropout_gradient", mask, [dy], [(x.shape, x.dtype)]).outputs

    return Local("dropout", mask, [x], [(x.shape, x.dtype)], gradient=gradient).outputs[0]


def noisy(x: Tensor, deviation: float, seed: tf.Tensor, mode: str) -> Tensor:
    """Return `x` plus normal numbers of mean 0, or times normal numbers of mean 1, drawn for the whole tensor as in `drop`.

    Parameters
    ----------
    deviation : their standard deviation.
    seed : (2,) int32, the key of this draw.
    mode : "add" or "multiply".
    """
    extents = [dimension.size for dimension in x.shape.dims]

    def noise(p: Processor, like: tf.Tensor) -> tf.Tensor:
        drawn = tf.random.stateless_normal(extents, seed, float(mode == "multiply"), deviation, like.dtype)
        return tf.slice(drawn, p.begins[0], p.shapes[0])

    def forward(p: Processor, value: tf.Tensor) -> tf.Tensor:
        return value + noise(p, value) if mode == "add" else value * noise(p, value)

    def gradient(_: Local, dy: Tensor) -> Sequence[Tensor]:
        return [dy] if mode == "add" else Local("noise_gradient", forward, [dy], [(x.shape, x.dtype)]).outputs

    return Local("noise", forward, [x], [(x.shape, x.dtype)], gradient=gradient).outputs[0]
