"""Nothing is silently ignored: what would not be honoured is refused, and the message names the layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.layers import layer_graph

Build = Callable[[], Any]


class _Conv2D(keras.layers.Conv2D):
    """A subclass may compute anything."""


@keras.saving.register_keras_serializable(package="theirs", name="Conv2D")
class _Registered(keras.layers.Conv2D):
    """A registered subclass may compute anything too."""


def _on(*stack: Any, shape: tuple[int | None, ...] = (8, 8, 4), **options: Any) -> Build:
    """Return what builds a functional model of layers one after another."""

    def build() -> keras.Model:
        i = x = keras.Input(shape, **options)
        for make in stack:
            x = make()(x)
        return keras.Model(i, x)

    return build


L = keras.layers
R = keras.regularizers
C = keras.constraints


def _lambda(name: str, *arguments: Any, **options: Any) -> Build:
    """Return what makes the layer `name` of Keras, called "odd"."""
    return lambda: getattr(keras.layers, name)(*arguments, name="odd", **options)


OPTIONS = {
    "dilated transposed convolution": (_lambda("Conv2DTranspose", 4, 3, dilation_rate=2), r"dilation_rate=.*; only \[1, 1\]"),
    "separable constraint": (_lambda("SeparableConv2D", 4, 3, pointwise_constraint="non_neg"), "pointwise_constraint"),
    "separable L1": (_lambda("SeparableConv2D", 4, 3, depthwise_regularizer="l1"), "depthwise_regularizer"),
    "bicubic": (_lambda("UpSampling2D", 2, interpolation="bicubic"), "interpolation='bicubic'; only 'nearest' or 'bilinear'"),
    "layer norm over rows": (_lambda("LayerNormalization", axis=1), "odd: a LayerNormalization has axis=.*only the last axis, or the last"),
    "layer norm with a gap": (_lambda("LayerNormalization", axis=(1, 3)), "odd: a LayerNormalization has axis=.*only the last axis"),
    "layer norm, rms": (lambda: _with(L.LayerNormalization(name="odd"), rms_scaling=True), "rms_scaling=True"),
    "layer norm constraint": (_lambda("LayerNormalization", gamma_constraint="non_neg"), "gamma_constraint"),
    "layer norm L1": (_lambda("LayerNormalization", beta_regularizer="l1"), "beta_regularizer"),
    "group norm over rows": (_lambda("GroupNormalization", 2, axis=1), "odd: a GroupNormalization has axis=1; only the last axis"),
    "prelu constraint": (_lambda("PReLU", alpha_constraint="non_neg"), "alpha_constraint"),
    "prelu L1": (_lambda("PReLU", alpha_regularizer="l1"), "alpha_regularizer"),
    "unit norm": (_lambda("UnitNormalization"), "UnitNormalization"),
    "cropping": (_lambda("Cropping2D", 1), "Cropping2D"),
    "gaussian noise": (_lambda("GaussianNoise", 0.1), "GaussianNoise"),
    "spatial dropout": (_lambda("SpatialDropout2D", 0.1), "SpatialDropout2D"),
    "lambda": (lambda: L.Lambda(lambda x: x * 2, name="odd"), "Lambda"),
    "subclass": (lambda: _Conv2D(4, 3, name="odd"), "_Conv2D"),
    "registered subclass": (lambda: _Registered(4, 3, name="odd"), "_Registered|Conv2D"),
    "L1": (_lambda("Conv2D", 4, 3, kernel_regularizer=R.L1(0.1)), "kernel_regularizer"),
    "L1L2": (_lambda("Conv2D", 4, 3, kernel_regularizer=R.L1L2(0.1, 0.1)), "kernel_regularizer"),
    "orthogonal": (_lambda("Dense", 4, kernel_regularizer=R.OrthogonalRegularizer()), "kernel_regularizer"),
    "bias L1": (_lambda("Dense", 4, bias_regularizer="l1"), "bias_regularizer"),
    "activity": (_lambda("Dense", 4, activity_regularizer="l2"), "activity_regularizer"),
    "activity of an activation": (_lambda("Activation", "relu", activity_regularizer="l2"), "activity_regularizer"),
    "activity of a pool": (lambda: _with(L.MaxPooling2D(2, name="odd"), activity_regularizer=R.L2(0.1)), "activity_regularizer"),
    "kernel constraint": (_lambda("Conv2D", 4, 3, kernel_constraint=C.NonNeg()), "kernel_constraint"),
    "bias constraint": (_lambda("Dense", 4, bias_constraint="non_neg"), "bias_constraint"),
    "gamma constraint": (_lambda("BatchNormalization", gamma_constraint="non_neg"), "gamma_constraint"),
    "beta constraint": (_lambda("BatchNormalization", beta_constraint="non_neg"), "beta_constraint"),
    "gamma L1": (_lambda("BatchNormalization", gamma_regularizer="l1"), "gamma_regularizer"),
    "norm over rows": (_lambda("BatchNormalization", axis=1), "axis"),
    "synchronized norm": (_lambda("BatchNormalization", synchronized=True), "synchronized"),
    "channels first": (_lambda("Conv2D", 4, 3, data_format="channels_first"), "data_format"),
    "channels first pool": (_lambda("MaxPooling2D", data_format="channels_first"), "data_format"),
    "channels first mean pool": (_lambda("AveragePooling2D", 2, data_format="channels_first"), "data_format"),
    "channels first global pool": (_lambda("GlobalAveragePooling2D", data_format="channels_first"), "data_format"),
    "channels first flatten": (_lambda("Flatten", data_format="channels_first"), "data_format"),
    "channels first padding": (_lambda("ZeroPadding2D", data_format="channels_first"), "data_format"),
    "noise shape": (_lambda("Dropout", 0.5, noise_shape=(2, 1, 1, 4)), "odd: a Dropout has noise_shape=.*give .None or 1, None, 1 or 8"),
    "softmax over rows": (_lambda("Softmax", axis=1), "axis"),
    "rescaling by channel": (_lambda("Rescaling", [[1.0, 2.0, 3.0, 4.0]]), "scale=.*; give one number, or a list of one a channel"),
    "depthwise constraint": (_lambda("DepthwiseConv2D", 3, depthwise_constraint="non_neg"), "depthwise_constraint"),
    "rescaling by a wrong count": (
        _lambda("Rescaling", [1.0, 2.0]),
        "odd: a Rescaling has 2 numbers for scale and 4 channels; give one a ch",
    ),
    "mixed precision": (_lambda("Conv2D", 4, 3, dtype="mixed_float16"), "mixed_float16"),
    "bfloat16": (_lambda("Dense", 4, dtype="bfloat16"), "bfloat16"),
    "half": (_lambda("Dense", 4, dtype="float16"), "float16"),
    "another activation": (_lambda("Dense", 4, activation="hard_sigmoid"), "hard_sigmoid"),
    "own activation": (lambda: L.Dense(4, activation=lambda x: x * x, name="odd"), "layer odd has the activation 'lambda'; supported"),
    "parametric activation": (_lambda("Activation", "leaky_relu"), "leaky_relu"),
}


def _with(layer: Any, **options: Any) -> Any:
    for name, value in options.items():
        setattr(layer, name, value)
    return layer


@pytest.mark.parametrize("odd, word", OPTIONS.values(), ids=OPTIONS)
def test_a_layer_or_option_that_is_not_supported_is_refused_by_name(odd: Build, word: str) -> None:
    channels_first = word == "data_format"
    stack = [odd] if channels_first else [lambda: L.Conv2D(4, 1, name="plain"), odd]
    try:
        model = _on(*stack)()
    except ValueError as fault:
        pytest.skip(f"Keras itself refuses it: {fault}")
    with pytest.raises(UnsupportedError, match=word) as caught:
        layer_graph(model)
    assert "odd" in str(caught.value)


def _shared_with_other_inputs() -> keras.Model:
    i, j = keras.Input((4, 4, 3)), keras.Input((2, 4, 3))
    twice = L.Conv2D(3, 5, name="odd", padding="same", activation="tanh", activity_regularizer="l2")
    return keras.Model([i, j], [twice(i), twice(j)])


def _nested_layer() -> keras.Model:
    j, i = keras.Input((4,)), keras.Input((4,))
    deep = keras.Sequential([keras.Input((4,)), L.GaussianNoise(0.1, name="odd")], name="deep")
    return keras.Model(i, keras.Model(j, deep(j), name="outer")(i))


def _two_dtypes_of_inputs() -> keras.Model:
    a, b = keras.Input((4,), name="odd", dtype="int32"), keras.Input((4,))
    return keras.Model([b, a], L.Dense(2)(b))


def _nested_input_of_another_dtype() -> keras.Model:
    i, j = keras.Input((4,)), keras.Input((4,), name="odd", dtype="float64")
    return keras.Model(i, keras.Model(j, L.Dense(2, dtype="float32")(j), name="inner")(i))


def _nested_input_of_another_rank() -> keras.Model:
    i, j = keras.Input((4, 1)), keras.Input((4,), name="odd")
    return keras.Model(i, keras.Model(j, L.Dense(2)(j), name="inner")(i))


def _keyword_tensor() -> keras.Model:
    i = keras.Input((4, 2))
    return keras.Model(i, L.MultiHeadAttention(2, 2, name="odd")(i, value=i))


def _nested_of_their_own() -> keras.Model:
    i, j = keras.Input((4,)), keras.Input((4,))
    return keras.Model(i, _OwnStep(j, L.Dense(2)(j), name="odd")(i))


def _operator() -> keras.Model:
    i = keras.Input((4,))
    return keras.Model(i, L.Dense(4)(i) + L.Dense(4)(i))


def _constant() -> keras.Model:
    i = keras.Input((4,))
    return keras.Model(i, L.Add(name="odd")([L.Dense(4)(i), np.ones((1, 4), "float32")]))


def _norm_of_samples() -> keras.Model:
    i = keras.Input((4,), batch_size=2)
    return keras.Model(i, L.Normalization(axis=(0, -1), mean=1.0, variance=1.0, name="odd")(i))


def _training_true() -> keras.Model:
    i = keras.Input((4,))
    return keras.Model(i, L.Dropout(0.5, name="odd")(i, training=True))


def _mask() -> keras.Model:
    i = keras.Input((4,))
    mask = keras.ops.ones((1,), bool)
    return keras.Model(i, L.BatchNormalization(name="odd")(i, mask=mask))


def _concatenate_rows() -> keras.Model:
    i = keras.Input((4, 4, 3))
    return keras.Model(i, L.Concatenate(axis=1, name="odd")([i, i]))


def _two_dtypes() -> keras.Model:
    i = keras.Input((4,))
    return keras.Model(i, L.Dense(4, dtype="float64", name="odd")(L.Dense(4, dtype="float32")(i)))


def _regularizer_put_in_later() -> keras.Model:
    i = keras.Input((4,))
    layer = L.Dense(4, name="odd")
    model = keras.Model(i, layer(i))
    layer.kernel.regularizer = R.L2(0.1)
    return model


def _constraint_put_in_later() -> keras.Model:
    i = keras.Input((4,))
    layer = L.Dense(4, name="odd")
    model = keras.Model(i, layer(i))
    layer.kernel.constraint = C.NonNeg()
    return model


def _regularizer_changed_later() -> keras.Model:
    i = keras.Input((4,))
    layer = L.Dense(4, kernel_regularizer=R.L2(0.1), name="odd")
    model = keras.Model(i, layer(i))
    layer.kernel_regularizer = R.L2(0.5)
    return model


class _Own(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.dense = L.Dense(2)

    def call(self, x: Any) -> Any:
        return self.dense(x)


class _OwnStep(keras.Model):
    def train_step(self, data: Any) -> dict[str, Any]:
        return {"loss": 0.0}


def _own_train_step() -> keras.Model:
    i = keras.Input((4,))
    return _OwnStep(i, L.Dense(2)(i))


def _subclass_with_arguments() -> keras.Model:
    model = _Own()
    model(np.zeros((1, 4), "float32"))
    return model


def _lora() -> keras.Model:
    i = keras.Input((4,))
    layer = L.Dense(4, name="odd")
    model = keras.Model(i, layer(i))
    layer.enable_lora(2)
    return model


MODELS = {
    "shared layer with an option": (_shared_with_other_inputs, r"odd \(Conv2D\) has activity_regularizer"),
    "layer in a nested model": (_nested_layer, "layer outer/deep/odd is a GaussianNoise"),
    "inputs of two dtypes": (_two_dtypes_of_inputs, "input odd has the dtype int32"),
    "nested input of another dtype": (_nested_input_of_another_dtype, "input inner/odd has the dtype float64 and the layers float32"),
    "nested input of another rank": (
        _nested_input_of_another_rank,
        r"input inner/odd of a nested model has the shape \(4,\) and is given \(4, 1\) by layer .*; reshape it with a layer",
    ),
    "a tensor by keyword": (_keyword_tensor, "layer odd is a MultiHeadAttention, which is not supported; use Dense"),
    "nested model of their own": (_nested_of_their_own, r"odd is a .*_OwnStep, which is not supported"),
    "plus between tensors": (_operator, "is a .*Add"),
    "constant": (_constant, "odd"),
    "training=True": (_training_true, "odd is called with training=True"),
    "normalization over samples": (_norm_of_samples, r"odd: a Normalization has axis=\(0, -1\); name dimensions behind the batch"),
    "mask": (_mask, "odd is called with mask"),
    "concatenated rows": (_concatenate_rows, "odd: .*axis=1"),
    "two dtypes": (_two_dtypes, "odd has the dtype float64"),
    "regularizer put in later": (_regularizer_put_in_later, "odd .*regularizer"),
    "constraint put in later": (_constraint_put_in_later, "odd .*constraint"),
    "regularizer changed later": (_regularizer_changed_later, "odd .*regularizer"),
    "subclassed model": (_Own, "_Own"),
    "subclassed model, called": (_subclass_with_arguments, "_Own"),
    "own train_step": (_own_train_step, "_OwnStep"),
    "low-rank adaptation": (_lora, "odd"),
    "unbuilt sequential model": (lambda: keras.Sequential([L.Dense(2)]), "input shape"),
    "empty sequential model": (lambda: keras.Sequential([]), "input shape"),
    "unknown extent": (_on(lambda: L.Conv2D(2, 1), shape=(None, None, 3)), r"input .*None"),
    "scalar input": (_on(lambda: L.Rescaling(2.0), shape=()), "input "),
    "images of bytes": (_on(lambda: L.Rescaling(2.0), shape=(4, 4, 3), dtype="uint8"), "input .*uint8"),
    "input of half precision": (_on(lambda: L.Dense(2), shape=(4,), dtype="float16"), "input .*float16"),
    "no model": (lambda: "model", "str"),
    "a layer": (lambda: L.Dense(2), "Dense"),
}


@pytest.mark.parametrize("build, words", MODELS.values(), ids=MODELS)
def test_a_model_that_would_not_be_honoured_is_refused(build: Build, words: str) -> None:
    model = build()
    with pytest.raises(UnsupportedError, match=words):
        layer_graph(model)
