"""Every kind of layer is transparent: any layout gives Keras's losses and weights in float64, and lies as the plan says."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.layers import kind_of
from hetero_mtf.training.residual_weight import ResidualWeight
from tests.cases import first_fast
from tests.program import drawing
from tests.program.oracle import Placement, Steps, keras_run, our_run, worst_error
from tests.program.small_nets import _scatter

L = keras.layers
R = keras.regularizers
IMAGE = (6, 5, 2)
VOLUME = (4, 5, 3, 2)
BATCH = 8


@pytest.fixture(scope="module")
def clusters() -> Iterator[dict[int, Any]]:
    made = {count: hm.Cluster.local(["cpu:0"] * count) for count in (1, 3, 4)}
    yield made
    for cluster in made.values():
        cluster.close()


def _image_net(*makes: Callable[[], Any], shape: tuple[int, ...] = IMAGE, filters: int = 12) -> Callable[[], keras.Model]:
    """Return what builds a net whose layers stand between a convolution of `filters` and another, so that they are split."""

    def build() -> keras.Model:
        convolution = L.Conv2D if len(shape) == 3 else L.Conv3D
        i = keras.Input(shape)
        x = convolution(filters, 2, padding="same", name="first")(i)
        for make in makes:
            x = make()(x)
        if len(x.shape) == len(shape) + 1:
            x = L.Flatten()(convolution(4, 1, activation="tanh", name="second")(x))
        return _settled(_scatter(keras.Model(i, L.Dense(3, name="head")(x))))

    return build


def _settled(model: keras.Model) -> keras.Model:
    for layer in model.layers:
        if hasattr(layer, "finalize_state"):
            layer.finalize_state()
    return model


def _squeeze_excite() -> keras.Model:
    """A block as in EfficientNet: depthwise, then a product with one number a channel, then stochastic depth of rate zero."""
    i = keras.Input(IMAGE)
    x = L.Normalization(name="norm")(L.Rescaling(0.7)(i))
    x = L.Conv2D(12, 3, padding="same", use_bias=False, name="expand")(x)
    x = L.Activation("swish")(L.BatchNormalization(name="bn")(x))
    x = L.DepthwiseConv2D(3, strides=2, use_bias=False, name="depth")(L.ZeroPadding2D(1)(x))
    s = L.Reshape((1, 1, 12))(L.GlobalAveragePooling2D()(x))
    s = L.Conv2D(3, 1, activation="swish", name="reduce")(s)
    s = L.Conv2D(12, 1, activation="sigmoid", name="restore")(s)
    x = L.Multiply(name="excite")([x, s])
    y = L.Conv2D(6, 1, name="project")(x)
    z = L.Conv2D(6, 1, name="again")(y)
    x = L.Add()([L.Dropout(0.0, noise_shape=(None, 1, 1, 1))(z), y])
    return _settled(_scatter(keras.Model(i, L.Dense(3, activation="softmax", name="head")(L.GlobalMaxPooling2D()(x)))))


def _merges() -> keras.Model:
    """All merges, of equal shapes, of one number a channel, of one number a sample, and of fewer dimensions."""
    i = keras.Input(IMAGE)
    a = L.Conv2D(6, 3, padding="same", name="left")(i)
    b = L.Conv2D(6, 1, name="right")(i)
    mean = L.GlobalAveragePooling2D()(a)
    x = L.Multiply()([L.Maximum()([a, b]), L.Average()([a, b, a])])
    x = L.Add()([L.Subtract()([x, b]), mean])
    one = L.Conv2D(1, 1, name="one")(b)
    x = L.Minimum()([L.Multiply()([x, one]), L.GlobalMaxPooling2D(keepdims=True)(b)])
    flat = L.Multiply()([L.Dense(4, name="hidden")(L.Flatten()(x)), L.Dense(1, name="gate")(mean)])
    return _scatter(keras.Model(i, L.Dense(3, name="head")(flat)))


def _flattened() -> keras.Model:
    """Layers that work channel by channel on features which a Flatten keeps split."""
    i = keras.Input((3, 2, 2))
    x = L.Flatten()(L.Conv2D(12, 2, padding="same", name="first")(i))
    x = L.Rescaling(list(np.linspace(-1, 1, 72)), 0.1)(x)
    x = L.Normalization(mean=np.linspace(-1, 1, 72), variance=np.linspace(0.5, 2, 72))(x)
    x = L.Dropout(0.0, noise_shape=(None, 1))(L.ELU(0.3)(L.LeakyReLU(0.2)(x)))
    x = L.Average()([x, L.Activation("gelu")(x)])
    return _scatter(keras.Model(i, L.Dense(3, name="head")(L.Dense(8, activation="tanh", name="hidden")(x))))


def _attended(fewer: int = 1, **options: Any) -> Callable[[], keras.Model]:
    """Return what builds a residual branch of attention, whose queries and keys may have fewer channels, and attention to itself."""

    def build() -> keras.Model:
        i = keras.Input(IMAGE)
        x = L.Conv2D(6, 3, padding="same", name="second")(L.Conv2D(8, 2, padding="same", activation="tanh", name="first")(i))
        names = (("query", 12 // fewer), ("value", 12), ("key", 12 // fewer))
        parts = [L.Reshape((30, n), name=f"{name}s")(L.Conv2D(n, 1, name=name)(x)) for name, n in names]
        y = L.Reshape((6, 5, 12))(L.Attention(name="attention", **options)(parts))
        y = L.Conv2D(6, 1, name="back")(ResidualWeight(name="weight")(y))
        x = L.Reshape((30, 6))(L.Add()([x, y]))
        x = L.Attention(name="itself")([x, L.Dense(6, name="other")(x)])
        return _scatter(keras.Model(i, L.Dense(3, name="head")(L.Flatten()(x))))

    return build


NETS: dict[str, Callable[[], keras.Model]] = {
    "squeeze and excite": _squeeze_excite,
    "merges": _merges,
    "attention": _attended(),
    "attention with a scale and fewer queries": _attended(3, use_scale=True),
    "features that stay split": _flattened,
    "depthwise": _image_net(lambda: L.DepthwiseConv2D(3, padding="same", activation="tanh", depthwise_regularizer="l2", name="depth")),
    "depthwise, strides, dilation": _image_net(
        lambda: L.DepthwiseConv2D(2, strides=2, name="depth"), lambda: L.DepthwiseConv2D((2, 1), dilation_rate=(1, 2), padding="same")
    ),
    "depthwise with a multiplier": _image_net(lambda: L.DepthwiseConv2D(2, depth_multiplier=2, name="depth"), filters=6),
    "normalization": _image_net(lambda: L.Normalization(), lambda: L.Normalization(axis=(1, 3), invert=True)),
    "normalization, given": _image_net(lambda: L.Normalization(mean=np.arange(12.0), variance=np.arange(12.0)[::-1] + 0.5)),
    "rescaling by channel": _image_net(lambda: L.Rescaling(list(np.arange(12) / 7), 0.3)),
    "reshape": _image_net(lambda: L.Reshape((5, 6, 12)), lambda: L.Reshape((15, 2, 12)), lambda: L.Reshape((6, 5, 12))),
    "reshape of channels": _image_net(lambda: L.Reshape((6, 15, 4))),
    "flatten and reshape": _image_net(lambda: L.Flatten(), lambda: L.Reshape((6, 10, 6))),
    "global maximum": _image_net(lambda: L.GlobalMaxPooling2D()),
    "3-D": _image_net(
        lambda: L.Conv3D(8, (2, 3, 2), strides=(1, 2, 1), padding="same", activation="relu", name="c2"),
        lambda: L.BatchNormalization(name="bn"),
        lambda: L.ZeroPadding3D(((1, 0), (0, 0), (0, 1))),
        lambda: L.Conv3D(12, 2, use_bias=False, kernel_regularizer=R.L2(0.01), name="c3"),
        shape=VOLUME,
    ),
    "3-D to features": _image_net(lambda: L.UpSampling3D((2, 1, 1)), lambda: L.GlobalAveragePooling3D(), shape=VOLUME),
    "3-D maxima": _image_net(lambda: L.GlobalMaxPooling3D(keepdims=True), lambda: L.PReLU(name="p"), shape=VOLUME),
    "transposed": _image_net(
        lambda: L.Conv2DTranspose(9, 3, strides=2, padding="same", activation="tanh", name="t1"),
        lambda: L.Conv2DTranspose(6, (2, 3), strides=3, output_padding=(1, 0), activation="tanh", kernel_regularizer=R.L2(0.01), name="t2"),
        lambda: L.Conv2DTranspose(5, 2, use_bias=False, name="t3"),
        lambda: L.AveragePooling2D(6),
    ),
    "transposed 3-D": _image_net(
        lambda: L.Conv3DTranspose(7, 2, strides=(1, 2, 1), activation="tanh", name="t1"),
        lambda: L.Conv3DTranspose(6, 3, padding="same", name="t2"),
        shape=VOLUME,
    ),
    "separable": _image_net(
        lambda: L.SeparableConv2D(10, 3, padding="same", depthwise_regularizer=R.L2(0.02), pointwise_regularizer=R.L2(0.01), name="s1"),
        lambda: L.SeparableConv2D(6, 2, strides=2, activation="relu", use_bias=False, name="s2"),
        lambda: L.SeparableConv2D(8, 2, depth_multiplier=2, dilation_rate=(1, 1), padding="same", name="s3"),
    ),
    "separable with a multiplier behind split channels": _image_net(lambda: L.SeparableConv2D(8, 2, depth_multiplier=2, name="s")),
    "dilated": _image_net(
        lambda: L.Conv2D(9, 2, dilation_rate=2, activation="relu", name="d1"),
        lambda: L.Conv2D(6, (2, 3), dilation_rate=(2, 1), padding="same", name="d2"),
    ),
    "groups": _image_net(
        lambda: L.Conv2D(6, 3, groups=3, strides=2, padding="same", name="g1"),
        lambda: L.Conv2D(8, 2, groups=2, dilation_rate=2, padding="same"),
    ),
    "layer norm": _image_net(lambda: L.LayerNormalization(name="n"), lambda: L.LayerNormalization(axis=(1, 2, 3), center=False)),
    "group norm": _image_net(lambda: L.GroupNormalization(3, name="n", gamma_regularizer=R.L2(0.01)), lambda: L.GroupNormalization(-1)),
    "rms norm": _image_net(lambda: L.RMSNormalization(name="n"), lambda: L.RMSNormalization(axis=[2, 3], epsilon=0.1)),
    "unit norm": _image_net(lambda: L.UnitNormalization(name="n")),
    "a group a channel": _image_net(
        lambda: L.Conv2D(12, 3, groups=12, padding="same", activation="relu", kernel_regularizer=R.L2(0.01), name="g1"),
        lambda: L.Conv2D(12, 2, groups=12, strides=(1, 2), use_bias=False, name="g2"),
    ),
    "rectifiers": _image_net(
        lambda: L.PReLU(name="p1", alpha_regularizer=R.L2(0.01)),
        lambda: L.LeakyReLU(0.2),
        lambda: L.PReLU(shared_axes=[1, 2], name="p2"),
        lambda: L.ELU(0.7),
        lambda: L.PReLU(shared_axes=[3], name="p3"),
        lambda: L.Activation("gelu"),
    ),
    "larger": _image_net(lambda: L.UpSampling2D((2, 1)), lambda: L.UpSampling2D((1, 2), interpolation="bilinear")),
    "permute": _image_net(lambda: L.Permute((2, 1, 3)), lambda: L.Permute((3, 1, 2))),
}  # fmt: skip


@pytest.mark.slow
def test_an_adapted_normalization_goes_back_to_keras_as_it_was(clusters: dict[int, Any]) -> None:
    keras.config.set_floatx("float64")
    rng = np.random.default_rng(0)
    x = rng.normal(3.0, 2.0, size=(8, *IMAGE))
    norm = L.Normalization(name="norm")
    norm.adapt(x)
    model = keras.Sequential([keras.Input(IMAGE), norm, L.Flatten(), L.Dense(3, name="head")])
    with hm.Trainer(model, hm.Plan.batch(model, [4, 3, 1], clusters[3], 8), clusters[3], loss="mse") as trainer:
        np.testing.assert_allclose(trainer.predict(x), model.predict(x, verbose=0), rtol=1e-10)
        trainer.train_on_batch(x, rng.normal(size=(8, 3)))
        np.testing.assert_allclose(trainer.to_keras().predict(x, verbose=0), trainer.predict(x), rtol=1e-10)
        assert [shape for _, shape in trainer.placement()["norm"]["mean"]] == [(2,)] * 3


def test_a_variable_that_is_one_number_is_placed_saved_and_returned(clusters: dict[int, Any], tmp_path: pathlib.Path) -> None:
    keras.config.set_floatx("float64")
    model = keras.Sequential([keras.Input((3,)), L.Normalization(axis=None, name="norm"), L.Dense(4, name="head")])
    model.get_layer("norm").adapt_mean.assign(0.5)
    model.get_layer("norm").finalize_state()
    with hm.Trainer(model, hm.Plan.filters(model, [7, 4, 1], clusters[3], 8), clusters[3], loss="mse") as trainer:
        trainer.train_on_batch(np.ones((8, 3)), np.ones((8, 4)))
        assert [shape for _, shape in trainer.placement()["norm"]["mean"]] == [()] * 3
        trainer.save(tmp_path / "state")
        trainer.restore(tmp_path / "state")
        assert float(trainer.to_keras().get_layer("norm").adapt_mean) == 0.5


def _volumes(mode: str, own: bool) -> Callable[[], keras.Model]:
    """Return what builds a net with a 3-D pool, or with what equals it in 2-D pools, which Keras has in float64 too."""

    def build() -> keras.Model:
        pool = f"{mode}Pooling"
        i = keras.Input(VOLUME)
        x = L.Conv3D(12, 2, padding="same", name="first")(i)
        if own:
            x = getattr(L, f"{pool}3D")((2, 3, 2), strides=(1, 1, 2), padding="same")(x)
        else:
            x = L.Reshape((4, 15, 12))(x)
            x = getattr(L, f"{pool}2D")((2, 1), strides=1, padding="same")(x)
            x = L.Permute((2, 1, 3))(L.Reshape((4 * 5, 3, 12))(x))  # width, then (depth, height)
            x = getattr(L, f"{pool}2D")((2, 1), strides=(2, 1), padding="same")(x)
            x = L.Reshape((2 * 4, 5, 12))(x)
            x = getattr(L, f"{pool}2D")((1, 3), strides=1, padding="same")(x)
            x = L.Permute((2, 3, 1, 4))(L.Reshape((2, 4, 5, 12))(x))
        x = L.Conv3D(4, 1, activation="tanh", name="second")(x)
        return _scatter(keras.Model(i, L.Dense(3, name="head")(L.Flatten()(x))))

    return build


@pytest.mark.slow
@pytest.mark.parametrize("mode", first_fast(["Max", "Average"], 1))
def test_3d_pools_are_transparent_in_float64_by_the_2d_pools_that_equal_them(mode: str, clusters: dict[int, Any]) -> None:
    keras.config.set_floatx("float64")
    for losses, weights in _errors(_volumes(mode, True)(), _volumes(mode, False)(), clusters):
        assert losses <= 1e-8 and weights <= 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("mode", first_fast(["Max", "Average"], 1))
def test_3d_pools_give_keras_losses_in_float32(mode: str, clusters: dict[int, Any]) -> None:
    model = _volumes(mode, True)()
    for losses, _ in _errors(model, model, clusters):
        assert losses <= 1e-4


def _errors(model: keras.Model, oracle: keras.Model, clusters: dict[int, Any]) -> Iterator[tuple[float, float]]:
    """Yield the largest errors of a model's losses and weights under each plan, beside those that Keras gives the oracle."""
    steps = _steps(model, (8, 8))
    optimizer, loss = lambda: keras.optimizers.SGD(0.02, momentum=0.9), lambda: keras.losses.MeanSquaredError()
    losses, weights = keras_run(oracle, optimizer(), loss(), steps)
    for name in ("pairs", "grid"):
        plan, cluster = PLANS[name](model, clusters)
        ours, trained, _ = our_run(model, plan, cluster, optimizer(), loss(), steps)
        yield float(np.abs(np.subtract(losses, ours)).max()), worst_error(weights, trained)


PLANS: dict[str, Callable[[keras.Model, dict[int, Any]], tuple[hm.Plan, Any]]] = {
    "pairs": lambda model, c: (hm.Plan.filters(model, [7, 4, 1], c[3], BATCH), c[3]),
    "grid": lambda model, c: (hm.Plan.grid(model, [3, 1], [2, 1], c[4], BATCH), c[4]),
    "single": lambda model, c: (hm.Plan.single(model, 0, c[1], BATCH), c[1]),
    "gather": lambda model, c: (hm.Plan.filters(model, [7, 4, 1], c[3], BATCH, pairing="gather"), c[3]),
    "equal": lambda model, c: (hm.Plan.equal(model, c[3], BATCH), c[3]),
    "batch": lambda model, c: (hm.Plan.batch(model, [4, 3, 1], c[3], BATCH), c[3]),
}
OFTEN, SELDOM = ["pairs", "grid"], ["single", "gather", "equal", "batch"]


def _steps(model: keras.Model, sizes: tuple[int, ...]) -> Steps:
    rng = np.random.default_rng(3)
    x = [rng.normal(size=(n, *model.input_shape[1:])) for n in sizes]
    return Steps(x, [rng.normal(size=(n, *model.output_shape[1:])) for n in sizes], [None] * len(sizes))


def _assert_in_force(model: keras.Model, plan: hm.Plan, placement: Placement) -> None:
    """Check that every layer that the plan splits by channels holds unequal slices of its variables, and every other one whole ones."""
    graph = layer_graph(model)
    devices = len(plan.stages[0].devices)
    for layer, layout in zip(graph.layers, plan.stages[0].layouts):
        for variable in layer.variables:
            held = placement[layer.name][variable.name]
            whole = [shape for _, shape in held if shape == variable.shape]
            if not layout.sizes:
                assert len(whole) == devices
            elif layout.layout == "column" and variable.name == "depthwise_kernel":
                assert len(whole) == devices
            elif variable.shape and variable.shape[-1] > 1 and (not kind_of(layer).mixes or len(variable.shape) > 1):
                assert not whole or 0 in layout.sizes


def _check(build: Callable[[], keras.Model], clusters: dict[int, Any], plans: list[str], sizes: tuple[int, ...]) -> None:
    keras.config.set_floatx("float64")
    model = build()
    steps = _steps(model, sizes)
    optimizer, loss = lambda: keras.optimizers.SGD(0.02, momentum=0.9), lambda: keras.losses.MeanSquaredError()
    losses, weights = keras_run(model, optimizer(), loss(), steps)
    for name in plans:
        plan, cluster = PLANS[name](model, clusters)
        ours, trained, placement = our_run(model, plan, cluster, optimizer(), loss(), steps)
        assert np.abs(np.subtract(losses, ours)).max() <= 1e-8, (name, losses, ours)
        assert worst_error(weights, trained) <= 1e-8, name
        _assert_in_force(model, plan, placement)


@pytest.mark.fast("3-D to features")
@pytest.mark.parametrize("build, plan", [(build, OFTEN[i % 2]) for i, build in enumerate(NETS.values())], ids=NETS)
def test_a_layer_is_transparent_in_slices_of_channels_or_of_both_channels_and_samples(
    build: Callable[[], keras.Model], plan: str, clusters: dict[int, Any]
) -> None:
    _check(build, clusters, [plan], (8, 8))


@pytest.mark.slow
@pytest.mark.parametrize("build, plan", [(build, OFTEN[1 - i % 2]) for i, build in enumerate(NETS.values())], ids=NETS)
def test_a_layer_is_transparent_in_every_other_layout_and_batch_size(
    build: Callable[[], keras.Model], plan: str, clusters: dict[int, Any]
) -> None:
    _check(build, clusters, [plan, *SELDOM], (8, 8, 5, 1))


@pytest.mark.slow
@pytest.mark.parametrize("seed, build", list(enumerate(NETS.values())), ids=NETS)
def test_a_layer_is_transparent_in_layouts_drawn_at_random(seed: int, build: Callable[[], keras.Model], clusters: dict[int, Any]) -> None:
    keras.config.set_floatx("float64")
    model = build()
    axes = [(("devices", 3),), (("batch", 2), ("filters", 2))]
    steps = _steps(model, (5, 2))
    optimizer, loss = lambda: keras.optimizers.SGD(0.01, momentum=0.9), lambda: keras.losses.MeanSquaredError()
    losses, weights = keras_run(model, optimizer(), loss(), steps)
    for draw in (seed, seed + 1):
        plan = drawing.plan(np.random.default_rng(draw), layer_graph(model), axes[draw % 2], 5)
        ours, trained, _ = our_run(model, plan, clusters[len(plan.devices)], optimizer(), loss(), steps)
        assert np.abs(np.subtract(losses, ours)).max() <= 1e-8, plan
        assert worst_error(weights, trained) <= 1e-8, plan
