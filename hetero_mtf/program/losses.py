"""Losses: Keras's own functions, applied to slices of the batch and summed over the mesh."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.operations.local import Local, Processor
from hetero_mtf.program.ops.value import Value

SUPPORTED_LOSSES = ("SparseCategoricalCrossentropy", "CategoricalCrossentropy", "BinaryCrossentropy", "MeanSquaredError")
REDUCTIONS = ("sum_over_batch_size", "sum", "mean_with_sample_weight")


def read_loss(loss: Any) -> Any:
    """Return the Keras loss object for a loss or its name.

    Parameters
    ----------
    loss : keras.losses.Loss, or a name such as "mse".

    Raises
    ------
    UnsupportedError
        For a loss, reduction or option that is not supported.
    """
    import keras

    try:
        keras_loss = keras.losses.get(loss) if isinstance(loss, str) else loss
    except ValueError as fault:
        raise UnsupportedError(f"the loss {loss!r} is unknown to Keras; supported are {', '.join(SUPPORTED_LOSSES)}") from fault
    if isinstance(loss, str) and not isinstance(keras_loss, keras.losses.Loss):
        keras_loss = _loss_of_function(keras_loss)
    name = type(keras_loss).__name__
    if getattr(keras.losses, name, None) is not type(keras_loss) or name not in SUPPORTED_LOSSES:
        raise UnsupportedError(f"the loss {loss!r} is not supported; supported are {', '.join(SUPPORTED_LOSSES)} of keras.losses")
    if keras_loss.reduction not in REDUCTIONS:
        raise UnsupportedError(f"the loss {name} has reduction={keras_loss.reduction!r}; supported are {', '.join(REDUCTIONS)}")
    config = keras_loss.get_config()
    for option, only in (("axis", -1), ("ignore_class", None)):
        if config.get(option, only) != only:
            raise UnsupportedError(f"the loss {name} has {option}={config[option]!r}; only {only!r} is supported")
    return keras_loss


def _loss_of_function(function: Callable[..., Any]) -> Any:
    """Return the Keras loss object of a loss function such as `keras.losses.mean_squared_error`."""
    import keras

    wanted = function.__name__.replace("_", "").lower()
    for name in SUPPORTED_LOSSES:
        if name.lower() == wanted:
            return getattr(keras.losses, name)()
    return function


def weighted_loss(loss: Any, output: Value, y: tf.Tensor, weight: tf.Tensor, scale: tf.Tensor) -> Any:
    """Return the scalar mtf.Tensor `scale * sum over samples of weight * loss(y, output)`.

    Parameters
    ----------
    loss : keras.losses.Loss.
    output : the network's output, channels whole; where it is the output of a softmax or sigmoid, the
        loss is computed from the logits, as in Keras.
    y : (batch, ...) targets.
    weight : (batch,) weights.
    scale : () factor, such as one over the batch size.
    """
    source, activation = output.logits if output.logits and output.logits[1] in ("softmax", "sigmoid") else (output.tensor, "linear")
    batch, *features = source.shape.dims
    mesh = source.mesh
    targets = mtf.import_tf_tensor(mesh, y, mtf.Shape([batch, *(mtf.Dimension(f"target{i}", int(n)) for i, n in enumerate(y.shape[1:]))]))
    weights = mtf.import_tf_tensor(mesh, weight, mtf.Shape([batch]))
    factor = mtf.import_tf_tensor(mesh, scale, mtf.Shape([]))

    def forward(_: Processor, value: tf.Tensor, truth: tf.Tensor, w: tf.Tensor, s: tf.Tensor) -> tf.Tensor:
        losses = _per_sample(loss, activation, truth, value)
        return tf.reduce_sum(losses * tf.reshape(w, [-1] + [1] * (losses.shape.rank - 1))) * s

    def backward(p: Processor, value: tf.Tensor, truth: tf.Tensor, w: tf.Tensor, s: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        copy = tf.identity(value)
        return tf.gradients(forward(p, copy, truth, w, s), copy, dy)[0]

    def gradient(_: Local, dy: Any) -> Sequence[Any]:
        inputs = [source, targets, weights, factor, dy]
        to_source = Local("loss_gradient", backward, inputs, [(source.shape, source.dtype)], unsplit=features)
        return [to_source.outputs[0], None, None, None]

    inputs = [source, targets, weights, factor]
    operation = Local("loss", forward, inputs, [(mtf.Shape([]), source.dtype)], summed=[batch], unsplit=features, gradient=gradient)
    return operation.outputs[0]


def _per_sample(loss: Any, activation: str, truth: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """Return Keras's loss values [batch, ...] of a slice."""
    import keras

    prediction = value if activation == "linear" else keras.activations.get(activation)(value)
    losses = loss.call(truth, prediction)
    return losses if losses.shape.rank else tf.reshape(losses, [1])


def loss_elements(loss: Any, output_shape: Sequence[int]) -> int:
    """Return the number of loss values of a sample: all but the last dimension of the output, which the loss sums or averages.

    Parameters
    ----------
    output_shape : shape of one sample of the network's output.
    """
    return math.prod(output_shape[:-1])
