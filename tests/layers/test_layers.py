"""Every kind of layer against Keras: shapes, variables, trainability and values, in every option that is supported."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.records import Layer
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.layers import KINDS, kind_of, make_layer
from hetero_mtf.layers.contraction.heads import ATTENTION
from hetero_mtf.layers.elementwise.activation import ACTIVATIONS
from hetero_mtf.layers.kind import FREE_OPTIONS, extent
from hetero_mtf.layers.windowed.window import window_shape
from tests.cases import each

IMAGE = (7, 6, 4)
VOLUME = (5, 4, 3, 6)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with hm.Cluster.local(["cpu:0"] * 3) as made:
        yield made


def _make(name: str, *arguments: Any, **options: Any) -> Callable[[], Any]:
    return lambda: getattr(keras.layers, name)(*arguments, **options)


LAYERS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "conv": (_make("Conv2D", 5, 3), IMAGE),
    "conv, all options": (
        _make("Conv2D", 5, (2, 3), strides=2, padding="same", activation="relu", use_bias=False, kernel_regularizer="l2", trainable=False),
        IMAGE,
    ),
    "conv, unequal strides": (_make("Conv2D", 5, 3, strides=(1, 2)), IMAGE),
    "conv, window larger than the image": (_make("Conv2D", 5, 9, padding="same"), IMAGE),
    "conv, other bias": (_make("Conv2D", 5, 1, bias_initializer="ones", bias_regularizer=keras.regularizers.L2(0.3)), IMAGE),
    "dense": (_make("Dense", 5), (6,)),
    "dense on images": (_make("Dense", 5, activation="tanh", use_bias=False), IMAGE),
    "dense softmax": (_make("Dense", 5, activation="softmax"), (6,)),
    "max pool": (_make("MaxPooling2D"), IMAGE),
    "max pool, overlapping, same": (_make("MaxPooling2D", 3, strides=2, padding="same"), IMAGE),
    "max pool, unequal": (_make("MaxPooling2D", (3, 2), strides=(2, 1)), IMAGE),
    "mean pool": (_make("AveragePooling2D", 2), IMAGE),
    "mean pool, overlapping, same": (_make("AveragePooling2D", 3, strides=1, padding="same"), IMAGE),
    "global mean": (_make("GlobalAveragePooling2D"), IMAGE),
    "batch norm": (_make("BatchNormalization"), IMAGE),
    "batch norm of features": (_make("BatchNormalization", epsilon=0.1), (6,)),
    "batch norm, no scale": (_make("BatchNormalization", scale=False, momentum=0.5), IMAGE),
    "batch norm, no centre, frozen": (_make("BatchNormalization", center=False, trainable=False), IMAGE),
    "batch norm, named axis": (_make("BatchNormalization", axis=3, moving_variance_initializer="ones"), IMAGE),
    **{f"activation {name}": (_make("Activation", name), IMAGE) for name in ACTIVATIONS},
    "activation swish": (_make("Activation", "swish"), IMAGE),
    "relu": (_make("ReLU"), IMAGE),
    "relu, ceiling": (_make("ReLU", max_value=6), IMAGE),
    "relu, everything": (_make("ReLU", max_value=0.8, negative_slope=0.3, threshold=0.2), IMAGE),
    "relu, slope": (_make("ReLU", negative_slope=0.3), IMAGE),
    "softmax": (_make("Softmax"), IMAGE),
    "dropout": (_make("Dropout", 0.5, seed=3), IMAGE),
    "flatten": (_make("Flatten"), IMAGE),
    "flatten of features": (_make("Flatten"), (6,)),
    "padding": (_make("ZeroPadding2D", 2), IMAGE),
    "padding, unequal": (_make("ZeroPadding2D", ((1, 0), (2, 3))), IMAGE),
    "rescaling": (_make("Rescaling", 1 / 127.5, -1), IMAGE),
    "rescaling by channel": (_make("Rescaling", [1.0, 2.0, 0.3, 4.0], [0.5]), IMAGE),
    "rescaling by array": (_make("Rescaling", np.array([0.1, 0.2, 0.3, 0.4]), np.float64(0.1)), IMAGE),
    "rescaling by narrow array": (_make("Rescaling", np.array([0.1, 0.2, 0.3, 0.4], "float32"), [0.1]), IMAGE),
    "rescaling by whole numbers": (_make("Rescaling", [1, 2, 3, 4], np.array(7)), IMAGE),
    "rescaling, one number in a list": (_make("Rescaling", [0.3], [1, 2, 3, 4]), IMAGE),
    "normalization": (_make("Normalization"), IMAGE),
    "normalization of all alike": (_make("Normalization", axis=None), IMAGE),
    "normalization by place": (_make("Normalization", axis=(-1, 1)), IMAGE),
    "normalization by row": (_make("Normalization", axis=1), IMAGE),
    "normalization of features": (_make("Normalization"), (6,)),
    "normalization, given": (_make("Normalization", mean=0.3, variance=2.1), IMAGE),
    "normalization, given by channel": (_make("Normalization", mean=[0.3, 1, 2, 3], variance=[2.1, 1, 0.0, 1e-20], invert=True), IMAGE),
    "normalization, given by place": (
        _make("Normalization", axis=(2, -1), mean=np.arange(24.0).reshape(6, 4), variance=np.ones((6, 4))), IMAGE
    ),
    "normalization, given, of all alike": (_make("Normalization", axis=None, mean=0.3, variance=0.7, invert=True), IMAGE),
    "depthwise": (_make("DepthwiseConv2D", 3), IMAGE),
    "depthwise, all options": (
        _make("DepthwiseConv2D", (2, 3), strides=2, padding="same", depth_multiplier=3, use_bias=False, depthwise_regularizer="l2",
              activation="relu"), IMAGE
    ),
    "depthwise, dilated": (_make("DepthwiseConv2D", 3, dilation_rate=(2, 1), bias_regularizer="l2", padding="same"), IMAGE),
    "depthwise, dilated and strided": (_make("DepthwiseConv2D", 3, dilation_rate=2, strides=2), IMAGE),
    "depthwise, softmax": (_make("DepthwiseConv2D", 2, activation="softmax"), IMAGE),
    "global maximum": (_make("GlobalMaxPooling2D"), IMAGE),
    "global maximum, kept": (_make("GlobalMaxPooling2D", keepdims=True), IMAGE),
    "global mean, kept": (_make("GlobalAveragePooling2D", keepdims=True), IMAGE),
    "dropout of whole channels": (_make("Dropout", 0.5, noise_shape=(None, 1, 1, 4)), IMAGE),
    "dropout of everything": (_make("Dropout", 1.0), IMAGE),
    "conv, dilated": (_make("Conv2D", 5, (3, 2), dilation_rate=2), IMAGE),
    "conv, dilated, same": (_make("Conv2D", 5, 3, dilation_rate=(1, 2), padding="same"), IMAGE),
    "conv, groups": (_make("Conv2D", 6, 3, groups=2, strides=2), IMAGE),
    "conv, groups, dilated": (_make("Conv2D", 4, 2, groups=4, dilation_rate=2, padding="same", activation="relu"), IMAGE),
    "conv 3-D": (_make("Conv3D", 5, (3, 2, 1)), VOLUME),
    "conv 3-D, all options": (
        _make("Conv3D", 5, 2, strides=(2, 1, 2), padding="same", activation="tanh", use_bias=False, kernel_regularizer="l2"), VOLUME
    ),
    "conv 3-D, dilated": (_make("Conv3D", 5, 2, dilation_rate=(2, 1, 2)), VOLUME),
    "conv 3-D, groups": (_make("Conv3D", 6, 2, groups=3), VOLUME),
    "transposed conv": (_make("Conv2DTranspose", 5, 3), IMAGE),
    "transposed conv, same, strides": (_make("Conv2DTranspose", 5, (3, 2), strides=2, padding="same", kernel_regularizer="l2"), IMAGE),
    "transposed conv, strides larger than window": (_make("Conv2DTranspose", 5, 2, strides=(3, 4), use_bias=False), IMAGE),
    "transposed conv, outer": (_make("Conv2DTranspose", 5, (3, 2), strides=3, output_padding=(2, 0), activation="relu"), IMAGE),
    "transposed conv, same, outer": (_make("Conv2DTranspose", 5, 3, strides=2, output_padding=0, padding="same"), IMAGE),
    "transposed conv 3-D": (_make("Conv3DTranspose", 5, (3, 2, 2), strides=(2, 1, 2)), VOLUME),
    "transposed conv 3-D, same, outer": (_make("Conv3DTranspose", 5, 3, strides=2, output_padding=1, padding="same"), VOLUME),
    "separable": (_make("SeparableConv2D", 5, 3), IMAGE),
    "separable, all options": (
        _make("SeparableConv2D", 5, (2, 3), strides=2, padding="same", depth_multiplier=2, activation="relu", use_bias=False,
              depthwise_regularizer="l2", pointwise_regularizer="l2"), IMAGE
    ),
    "separable, dilated": (_make("SeparableConv2D", 5, 2, dilation_rate=(1, 2), bias_regularizer="l2"), IMAGE),
    "padding 3-D": (_make("ZeroPadding3D", ((1, 0), (2, 3), (0, 1))), VOLUME),
    "larger": (_make("UpSampling2D"), IMAGE),
    "larger, unequal": (_make("UpSampling2D", (3, 1)), IMAGE),
    "larger, bilinear": (_make("UpSampling2D", (3, 2), interpolation="bilinear"), IMAGE),
    "larger 3-D": (_make("UpSampling3D", (1, 2, 3)), VOLUME),
    "global mean 3-D": (_make("GlobalAveragePooling3D"), VOLUME),
    "global maximum 3-D": (_make("GlobalMaxPooling3D", keepdims=True), VOLUME),
    "batch norm 3-D": (_make("BatchNormalization"), VOLUME),
    "layer norm": (_make("LayerNormalization"), IMAGE),
    "layer norm, of places, no scale": (_make("LayerNormalization", axis=(2, 3), scale=False, epsilon=0.1), IMAGE),
    "layer norm, of all": (_make("LayerNormalization", axis=[-1, -2, -3], center=False, gamma_regularizer="l2"), IMAGE),
    "layer norm of features": (_make("LayerNormalization", scale=False, center=False), (6,)),
    "group norm": (_make("GroupNormalization", 2), IMAGE),
    "group norm, of each channel": (_make("GroupNormalization", -1, axis=3, scale=False, epsilon=0.1), IMAGE),
    "group norm, one group": (_make("GroupNormalization", 1, center=False), VOLUME),
    "group norm of features": (_make("GroupNormalization", 3), (6,)),
    "group norm, groups of two": (_make("GroupNormalization", 2, epsilon=0.1, beta_regularizer="l2"), VOLUME),
    "rms norm": (_make("RMSNormalization"), IMAGE),
    "rms norm, of places": (_make("RMSNormalization", axis=(2, 3), epsilon=0.1), IMAGE),
    "rms norm of features": (_make("RMSNormalization"), (6,)),
    "unit norm": (_make("UnitNormalization"), IMAGE),
    "unit norm of features": (_make("UnitNormalization"), (6,)),
    "conv, a group a channel": (_make("Conv2D", 4, 3, groups=4, padding="same", activation="relu"), IMAGE),
    "conv, a group a channel, strides": (_make("Conv2D", 4, 2, groups=4, strides=(1, 2), use_bias=False), IMAGE),
    "conv, filters of a channel": (_make("Conv2D", 8, 3, groups=4, strides=2), IMAGE),
    "conv 3-D, a group a channel": (_make("Conv3D", 6, 2, groups=6), VOLUME),
    "leaky relu": (_make("LeakyReLU"), IMAGE),
    "leaky relu, steep": (_make("LeakyReLU", negative_slope=0.7), (6,)),
    "elu": (_make("ELU"), IMAGE),
    "elu, scaled": (_make("ELU", alpha=0.4), IMAGE),
    "prelu": (_make("PReLU"), IMAGE),
    "prelu of channels": (_make("PReLU", shared_axes=[1, 2], alpha_regularizer="l2"), IMAGE),
    "prelu of places": (_make("PReLU", shared_axes=-1), IMAGE),
    "prelu of places and channels alike": (_make("PReLU", shared_axes=[1, 2, 3]), IMAGE),
    "prelu of channels alike": (_make("PReLU", shared_axes=3), IMAGE),
    "prelu of features": (_make("PReLU"), (6,)),
    "permute": (_make("Permute", (3, 1, 2)), IMAGE),
    "permute of space": (_make("Permute", (2, 1, 3)), IMAGE),
    "reshape": (_make("Reshape", (42, 4)), IMAGE),
    "reshape, inferred": (_make("Reshape", (-1, 2, 4)), IMAGE),
    "reshape of channels": (_make("Reshape", (7, 24)), IMAGE),
    "reshape of features": (_make("Reshape", (1, 1, 6)), (6,)),
    "reshape to features": (_make("Reshape", (-1,)), IMAGE),
}  # fmt: skip


def _model(make: Callable[[], Any], shape: tuple[int, ...]) -> keras.Model:
    """Return a model of a mixing layer, so that there is something to split, and the layer in question."""
    i = keras.Input(shape)
    x = keras.layers.Dense(shape[-1], name="before")(i)
    model = keras.Model(i, make()(x))
    rng = np.random.default_rng(2)
    for variable in model.weights:
        variable.assign(np.abs(rng.normal(size=variable.shape)) + 0.1 if "variance" in variable.name else rng.normal(size=variable.shape))
    return model


SHARES = ([0, 3, 1], [2, 1, 1], [1, 0, 0])


@pytest.mark.fast(
    'activation log_sigmoid',
    'conv, a group a channel, strides',
    'depthwise, softmax',
    'flatten of features',
    'group norm',
    'group norm, one group',
    'larger, bilinear',
    'layer norm, of places, no scale',
    'leaky relu',
    'normalization, given by place',
    'prelu',
    'relu, ceiling',
    'reshape of channels',
    'softmax',
    'transposed conv',
)
@pytest.mark.parametrize("make, shape, shares", [(*layer, [SHARES[i % 3]]) for i, layer in enumerate(LAYERS.values())], ids=LAYERS)
def test_a_layer_has_keras_shape_variables_and_values(
    make: Callable[[], Any], shape: tuple[int, ...], shares: Sequence[list[int]], cluster: Any
) -> None:
    _check_layer(make, shape, shares, cluster)


@pytest.mark.slow
@pytest.mark.parametrize("make, shape", LAYERS.values(), ids=LAYERS)
def test_a_layer_has_keras_values_under_all_shares(make: Callable[[], Any], shape: tuple[int, ...], cluster: Any) -> None:
    _check_layer(make, shape, SHARES, cluster)


def _check_layer(make: Callable[[], Any], shape: tuple[int, ...], shares: Sequence[list[int]], cluster: Any) -> None:
    keras.config.set_floatx("float64")
    model = _model(make, shape)
    theirs, ours = model.layers[-1], layer_graph(model).layers[-1]
    assert ours.kind == type(theirs).__name__ and ours.name == theirs.name
    assert ours.output_shape == tuple(theirs.output.shape[1:])
    trainable = {id(v) for v in theirs.trainable_weights}
    assert [(v.name, v.shape, v.trainable) for v in ours.variables] == [
        (v.name, tuple(v.shape), id(v) in trainable) for v in theirs.weights if v.name not in kind_of(ours).ignored_variables
    ]
    for layer in model.layers:
        if hasattr(layer, "finalize_state"):
            layer.finalize_state()  # Keras computes with what the mean and variance were when it was last called
    x = np.random.default_rng(0).normal(size=(3, *shape))
    expected = model.predict(x, verbose=0)
    for numbers in shares:
        with hm.Trainer(model, hm.Plan.filters(model, numbers, cluster, 3), cluster, loss="mse") as trainer:
            np.testing.assert_allclose(trainer.predict(x), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("make, shape", LAYERS.values(), ids=LAYERS)
def test_a_part_of_a_layer_that_may_be_split_is_a_layer_too(make: Callable[[], Any], shape: tuple[int, ...]) -> None:
    layer = layer_graph(_model(make, shape)).layers[-1]
    kind = kind_of(layer)
    if "split" in kind.layouts(layer):
        part = make_layer("part", layer.kind, layer.attributes, (0,), [(*shape[:-1], shape[-1] // 2)])
        assert extent(part.output_shape) == extent(layer.output_shape) // 2
        assert make_layer("part", layer.kind, layer.attributes, (0,), [shape]).attributes == layer.attributes
    if kind.mixes:
        fewer = make_layer("part", layer.kind, kind.with_units(layer.attributes, 2), (0,), [shape])
        assert fewer.output_shape == (*layer.output_shape[:-1], 2)
        assert 0 < fewer.flops < layer.flops


POOLS_3D = {
    "max pool 3-D": _make("MaxPooling3D"),
    "max pool 3-D, overlapping, same": _make("MaxPooling3D", (3, 2, 3), strides=(2, 1, 2), padding="same"),
    "mean pool 3-D": _make("AveragePooling3D", 2),
    "mean pool 3-D, overlapping, same": _make("AveragePooling3D", 3, strides=(1, 2, 2), padding="same"),
}


@pytest.mark.slow
@pytest.mark.fast("max pool 3-D-float32")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("make", POOLS_3D.values(), ids=POOLS_3D)
def test_a_3d_pool_has_keras_values_in_float64_too_where_keras_has_none(make: Callable[[], Any], dtype: str, cluster: Any) -> None:
    model = _model(make, VOLUME)
    x = np.random.default_rng(0).normal(size=(3, *VOLUME)).astype("float32")
    expected = model.predict(x, verbose=0)
    keras.config.set_floatx(dtype)
    keras.config.set_dtype_policy(dtype)
    ours = _model(make, VOLUME)
    ours.set_weights(model.get_weights())
    assert layer_graph(ours).layers[-1].output_shape == expected.shape[1:]
    for shares in ([1, 0, 0], [2, 1, 1]):
        with hm.Trainer(ours, hm.Plan.filters(ours, shares, cluster, 3), cluster, loss="mse") as trainer:
            found = trainer.predict(x.astype(dtype))
            assert found.dtype == dtype
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("name", sorted(name for name in set(KINDS) - {"InputLayer"} if not name.startswith("hetero_mtf>")))
def test_every_option_of_a_layer_is_sorted_into_kept_fixed_or_free(name: str) -> None:
    kind = KINDS[name]
    assert kind.keras_class == name
    options = set(inspect.signature(getattr(keras.layers, name).__init__).parameters) - {"self", "kwargs"}
    unknown = options - {*kind.kept, *kind.fixed, *kind.free, *FREE_OPTIONS}
    assert unknown <= {"seed"}, "an option in no set would be refused whatever its value"


def test_an_option_that_a_later_keras_adds_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"layer c \(Flatten\) has the option novelty=3, which is not supported; leave it out"):
        KINDS["Flatten"].attributes("c", {"name": "c", "novelty": 3})


def _mixing(activation: str = "relu") -> Layer:
    attributes = {"units": 4, "activation": activation, "use_bias": True, "kernel_l2": 0.0, "bias_l2": 0.0}
    return make_layer("d", "Dense", attributes, (0,), [(6,)])


def test_a_mixing_layer_is_a_column_or_a_row_but_a_softmax_is_never_split() -> None:
    assert kind_of(_mixing()).mixes
    assert kind_of(_mixing()).layouts(_mixing()) == {"replicated", "column", "row"}
    assert kind_of(_mixing("softmax")).layouts(_mixing("softmax")) == {"replicated", "row"}
    for attributes, expected in [("softmax", {"replicated"}), ("relu", {"replicated", "split"})]:
        layer = make_layer("a", "Activation", {"activation": attributes}, (0,), [(6,)])
        assert kind_of(layer).layouts(layer) == expected


def test_the_elementwise_merges_and_attention_alone_take_several_split_inputs() -> None:
    merges = {"Add", "Multiply", "Subtract", "Average", "Maximum", "Minimum"}
    assert {name for name, kind in KINDS.items() if kind.merges} == {*merges, "Attention", ATTENTION}
    join = make_layer("j", "Concatenate", {"axis": -1}, (0, 1), [(2, 3), (2, 4)])
    assert join.output_shape == (2, 7) and kind_of(join).layouts(join) == {"replicated"}


def test_costs_count_multiplications_and_additions() -> None:
    assert _mixing().flops == 2 * 6 * 4
    options = {"kernel_size": [3, 3], "strides": [2, 2], "padding": "same", "filters": 5}
    conv = make_layer("c", "Conv2D", {**_mixing().attributes, **options}, (0,), [(9, 7, 3)])
    assert conv.output_shape == (5, 4, 5) and conv.flops == 2 * 3 * 3 * 3 * 5 * 5 * 4


@each("n", range(1, 9))
@each("window", [1, 2, 3])
@each("stride", [1, 2, 3])
def test_window_shapes_are_those_of_keras(n: int, window: int, stride: int) -> None:
    layer = keras.layers.MaxPooling2D(window, stride, "same")
    assert window_shape((n,), (window,), (stride,), "same") == layer.compute_output_shape((None, n, n, 1))[1:2]
    if n >= window:
        layer = keras.layers.MaxPooling2D(window, stride, "valid")
        assert window_shape((n,), (window,), (stride,), "valid") == layer.compute_output_shape((None, n, n, 1))[1:2]


def test_an_image_smaller_than_the_window_is_refused_by_name() -> None:
    with pytest.raises(
        UnsupportedError, match=r"layer p \(MaxPooling2D\) would have the output shape .*; its input \(2, 2, 1\) is too small"
    ):
        make_layer("p", "MaxPooling2D", {"pool_size": [3, 3], "strides": [1, 1], "padding": "valid"}, (0,), [(2, 2, 1)])


def test_a_layer_of_an_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="layer l is a LSTM, which Keras itself computes in a model in memory"):
        kind_of(Layer("l", "LSTM", {}, (), (3,)))


def test_a_layer_graph_is_returned_as_it_is() -> None:
    graph = layer_graph(_model(*LAYERS["conv"]))
    assert layer_graph(graph) is graph


def test_the_extent_of_nothing_is_one() -> None:
    assert extent(()) == 1
