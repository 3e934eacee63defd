"""Losses: Keras's own, of each sample on slices of the batch where samples are independent, else of the whole outputs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from hetero_mtf.errors import DataError, UnsupportedError
from hetero_mtf.keras_reading.private_names import LossFunctionWrapper, logits_of, set_logits, set_mask
from hetero_mtf.keras_reading.traced_calls.present_tensors import compared_by_elements
from hetero_mtf.mesh.batch_parts import Fed, import_batch
from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations.compute import compute
from hetero_mtf.mesh.operations.local import Local, Processor
from hetero_mtf.mesh.operations.precision import cast
from hetero_mtf.program.ops.value import Value, lies_in_slabs

# Keras's losses of which a sample's value depends on that sample alone. Hinge losses look at all labels, to see whether they are binary.
SAMPLEWISE_LOSSES = frozenset(
    {
        *("BinaryCrossentropy", "BinaryFocalCrossentropy", "CategoricalCrossentropy", "CategoricalFocalCrossentropy"),
        *("CategoricalHinge", "CosineSimilarity", "Huber", "KLDivergence", "LogCosh"),
        *("MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanSquaredError", "MeanSquaredLogarithmicError", "Poisson"),
        "SparseCategoricalCrossentropy",
    }
)
REDUCTIONS = ("sum_over_batch_size", "sum", "mean_with_sample_weight")
WITH_CLASS_NUMBERS = "SparseCategoricalCrossentropy"
OF_MASKED = "of_masked_output"  # marks a loss whose output carries a mask: Keras divides by the number of values that the mask leaves


def read_loss(loss: Any) -> Any:
    """Return the Keras loss object for a loss, a function of targets and predictions, or its name.

    Parameters
    ----------
    loss : keras.losses.Loss, a function, or a name such as "mse".

    Raises
    ------
    UnsupportedError
        If it is none of these.
    """
    try:
        keras_loss = keras.losses.get(loss) if isinstance(loss, str) else loss
    except ValueError as fault:
        raise UnsupportedError(f"the loss {loss!r} is unknown to Keras", "give a name or object of keras.losses, or a function") from fault
    if isinstance(keras_loss, keras.losses.Loss):
        return keras_loss
    if isinstance(loss, type) or not callable(keras_loss):
        raise UnsupportedError(f"the loss {loss!r} is no loss", "give a name or object of keras.losses, or a function of (y_true, y_pred)")
    return _loss_of_function(keras_loss)


def _loss_of_function(function: Any) -> Any:
    """Return the Keras loss object of a loss function: the class of one of `keras.losses`, or one around a function of the user's own."""
    for name in SAMPLEWISE_LOSSES:
        loss = getattr(keras.losses, name)
        own = next((f for f in vars(keras.losses).values() if f is function), None)
        if own is not None and getattr(loss(), "fn", None) is own:
            return loss()
    name = getattr(function, "__name__", type(function).__name__)
    return LossFunctionWrapper(function, name=re.sub(r"\W+", "", name) or "loss")


def is_samplewise(loss: Any) -> bool:
    """Return whether a loss is a sum over samples, each of which depends on that sample alone.

    Parameters
    ----------
    loss : keras.losses.Loss.
    """
    name = type(loss).__name__
    if getattr(loss, OF_MASKED, False) or name not in SAMPLEWISE_LOSSES or loss.reduction not in REDUCTIONS:
        return False
    if getattr(keras.losses, name) is not type(loss):
        return False
    config = loss.get_config()
    return config.get("axis", -1) == -1 and config.get("ignore_class") is None


def weighted_loss(loss: Any, output: Value, y: Fed, weight: Fed, scale: tf.Tensor, share: float = 1.0) -> Tensor:
    """Return the scalar loss of an output, an mtf.Tensor.

    Of a samplewise loss it is `scale * sum over samples of weight * loss(y, output)`, of another one `share` times Keras's value.

    Parameters
    ----------
    loss : keras.losses.Loss.
    output : the network's output, channels whole, and for a loss that is not samplewise the batch too; where it is the output
        of a softmax or sigmoid, the loss is computed from the logits, as in Keras.
    y : (batch, ...) targets.
    weight : (batch,) weights, or (batch, ...) of the rank of the loss's values.
    scale : () factor, such as one over the batch size; for a loss that is not samplewise, whether there are weights.
    share : part of the batch that this is, of a microbatch.
    """
    if output.tensor.dtype.is_floating and output.tensor.dtype != weight.dtype:
        output = Value(cast(output.tensor, weight.dtype), mask=output.mask)  # as Keras, which then no longer has the logits
    source, activation = output.logits if output.logits and output.logits[1] in ("softmax", "sigmoid") else (output.tensor, "linear")
    batch, *features = source.shape.dims
    mesh = source.mesh
    targets, weights = (
        import_batch(mesh, tensor, mtf.Shape([batch, *_dimensions(of, [int(n) for n in tensor.shape[1:]], features)]))
        for of, tensor in (("target", y), ("weight", weight))
    )
    factor = mtf.import_tf_tensor(mesh, scale, mtf.Shape([]))
    if not is_samplewise(loss):
        masks = [] if output.mask is None else [output.mask]
        return _unsplit_loss(loss, activation, source, [targets, weights, factor, *masks], share)

    def forward(_: Processor, value: tf.Tensor, truth: tf.Tensor, w: tf.Tensor, s: tf.Tensor) -> tf.Tensor:
        losses = _per_sample(loss, activation, truth, value)
        return tf.reduce_sum(losses * _of_rank(w, losses.shape.rank)) * s

    def backward(p: Processor, value: tf.Tensor, truth: tf.Tensor, w: tf.Tensor, s: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        copy = tf.identity(value)
        return tf.gradients(forward(p, copy, truth, w, s), copy, dy)[0]

    def gradient(_: Local, dy: Tensor) -> Sequence[Tensor | None]:
        inputs = [source, targets, weights, factor, dy]
        to_source = Local("loss_gradient", backward, inputs, [(source.shape, source.dtype)], unsplit=whole)
        return [to_source.outputs[0], None, None, None]

    inputs, outputs = [source, targets, weights, factor], [(mtf.Shape([]), source.dtype)]
    whole = [d for d in features if not lies_in_slabs(d)]
    return Local("loss", forward, inputs, outputs, summed=source.shape.dims[:-1], unsplit=whole, gradient=gradient).outputs[0]


def _dimensions(name: str, extents: Sequence[int], features: Sequence[mtf.Dimension]) -> list[mtf.Dimension]:
    """Return the dimensions of targets or weights behind the batch: in slabs where those of the output are."""
    like = dict(enumerate(features[: len(extents)]))
    own = [mtf.Dimension(f"{name}{i}", n) for i, n in enumerate(extents)]
    return [like[i] if i in like and lies_in_slabs(like[i]) and like[i].size == d.size else d for i, d in enumerate(own)]


def _unsplit_loss(loss: Any, activation: str, source: Tensor, inputs: Sequence[Tensor], share: float) -> Tensor:
    """Return Keras's value of a loss of whole outputs, its own reduction, masks and weights included."""
    part = share if loss.reduction in ("sum_over_batch_size", "mean", "mean_with_sample_weight") else 1.0

    def value(prediction: tf.Tensor, truth: tf.Tensor, weights: tf.Tensor, weighted: tf.Tensor, *masks: tf.Tensor) -> tf.Tensor:
        def of(**options: tf.Tensor) -> tf.Tensor:
            with compared_by_elements():
                return tf.reduce_sum(loss(truth, _with_mask(_activated(activation, prediction), *masks), **options))

        with compared_by_elements():
            own_rank = loss.call(truth, _activated(activation, prediction)).shape.rank
        own_weights = _of_rank(weights, own_rank or 1)
        return tf.cast(tf.where(weighted > 0.5, _checked(of, own_weights), of()), prediction.dtype) * part

    stopped = [mtf.stop_gradient(tensor) if tensor.dtype.is_floating else tensor for tensor in inputs]
    return compute("whole_loss", value, [source, *stopped], mtf.Shape([]), unsplit=source.shape.dims)


def _of_rank(weights: tf.Tensor, rank: int) -> tf.Tensor:
    """Return weights that fit loss values of a rank: one a sample gets dimensions of 1."""
    return tf.reshape(weights, [-1] + [1] * (rank - 1)) if weights.shape.rank == 1 else weights


def _checked(of: Callable[..., tf.Tensor], weights: tf.Tensor) -> tf.Tensor:
    """Return a loss with weights.

    Raises
    ------
    DataError
        If Keras cannot multiply its values by them.
    """
    try:
        return of(sample_weight=weights)
    except (ValueError, tf.errors.InvalidArgumentError) as fault:
        said = " ".join(str(fault).split())[:120]
        shape = tuple(weights.shape)
        raise DataError(
            f"the loss takes no sample_weight of shape {shape} ({said})", "give one weight a sample, or one a loss value"
        ) from fault


def _with_mask(value: tf.Tensor, mask: tf.Tensor | None = None) -> tf.Tensor:
    """Return a tensor that carries a mask as Keras's do, and the logits that it was computed from, where Keras's losses look for them."""
    if mask is None:
        return value
    carrying = tf.identity(value)
    set_mask(carrying, mask)
    if logits_of(value) is not None:
        set_logits(carrying, logits_of(value))
    return carrying


def _activated(activation: str, value: tf.Tensor) -> tf.Tensor:
    return value if activation == "linear" else keras.activations.get(activation)(value)


def _per_sample(loss: Any, activation: str, truth: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """Return Keras's loss values [batch, ...] of a slice."""
    with compared_by_elements():
        losses = loss.call(truth, _activated(activation, value))
    return losses if losses.shape.rank else tf.reshape(losses, [1])


def loss_elements(loss: Any, output_shape: Sequence[int]) -> int:
    """Return the number of loss values of a sample: all but the last dimension of the output, which the loss sums or averages.

    Parameters
    ----------
    output_shape : shape of one sample of the network's output.
    """
    return math.prod(output_shape[:-1])
