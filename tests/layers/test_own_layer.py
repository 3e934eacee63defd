"""A layer of the user's own, described as the project's own layers are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.errors import UnsupportedError
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.layers import KINDS, LayerKind, Variable, kind_of, register
from hetero_mtf.layers.fallback.keras_call_kind import is_keras_call
from tests.cases import first_fast
from tests.program.oracle import Steps, keras_run, our_run, worst_error


@keras.saving.register_keras_serializable(package="mine")
class Gain(keras.layers.Layer):
    """The hyperbolic tangent of x times a trained number a channel, to a power."""

    def __init__(self, power: int = 1, **options: Any) -> None:
        super().__init__(**options)
        self.power = power

    def build(self, shape: Any) -> None:
        self.gain = self.add_weight(name="gain", shape=shape[-1:], initializer="ones")

    def call(self, x: Any) -> Any:
        return keras.ops.tanh(x * self.gain) ** self.power

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "power": self.power}


class GainKind(LayerKind):
    """What `Gain` computes."""

    keras_class = "mine>Gain"
    kept = ("power",)

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        return inputs[0]

    def variables(self, attributes: Mapping[str, Any], inputs: Sequence[tuple[int, ...]]) -> tuple[Variable, ...]:
        return (Variable("gain", inputs[0][-1:], trainable=True),)

    def build(self, b: Any, layer: Any, inputs: Sequence[Any]) -> Any:
        import tensorflow as tf

        return b.compute(lambda x, gain: tf.tanh(x * gain) ** layer.attributes["power"], inputs, ["gain"])


@keras.saving.register_keras_serializable(package="mine")
class Contrast(keras.layers.Layer):
    """Each sample less the mean of the batch: a layer that mixes samples."""

    def call(self, x: Any) -> Any:
        return x - keras.ops.mean(x, axis=0, keepdims=True)


class ContrastKind(LayerKind):
    """What `Contrast` computes."""

    keras_class = "mine>Contrast"
    mixes_samples = True

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        return inputs[0]

    def build(self, b: Any, layer: Any, inputs: Sequence[Any]) -> Any:
        import tensorflow as tf

        return b.compute(lambda x: x - tf.reduce_mean(x, 0, keepdims=True), inputs)


@keras.saving.register_keras_serializable(package="mine")
class Gate(keras.layers.Layer):
    """An image times the sigmoid of features: two inputs, of different shapes, and a weight of one number."""

    def build(self, shapes: Any) -> None:
        self.sharpness = self.add_weight(name="sharpness", shape=(1,), initializer="ones")

    def call(self, inputs: Any) -> Any:
        image, features = inputs
        return image * keras.ops.sigmoid(features * self.sharpness)[:, None, None, :]


class GateKind(LayerKind):
    """What `Gate` computes."""

    keras_class = "mine>Gate"
    merges = True

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        return inputs[0]

    def variables(self, attributes: Mapping[str, Any], inputs: Sequence[tuple[int, ...]]) -> tuple[Variable, ...]:
        return (Variable("sharpness", (1,), trainable=True),)

    def build(self, b: Any, layer: Any, inputs: Sequence[Any]) -> Any:
        import tensorflow as tf

        def function(image: Any, features: Any, sharpness: Any) -> Any:
            return image * tf.sigmoid(features * sharpness)[:, None, None, :]

        return b.compute(function, inputs, ["sharpness"])


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    for kind in (GainKind(), ContrastKind(), GateKind()):
        register(kind)
    yield
    for name in ("mine>Gain", "mine>Contrast", "mine>Gate"):
        KINDS.pop(name, None)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with hm.Cluster.local(["cpu:0"] * 3) as made:
        yield made


def _net(contrast: bool = False) -> keras.Model:
    keras.config.set_floatx("float64")
    i = keras.Input((5, 4, 2))
    x = Gain(power=2, name="gain")(keras.layers.Conv2D(6, 2, name="first")(i))
    if contrast:
        x = Contrast(name="contrast")(x)
    y = keras.layers.Dense(6, name="gates")(keras.layers.GlobalAveragePooling2D()(x))
    x = keras.layers.Conv2D(4, 1, name="second")(Gate(name="gate")([x, y]))
    x = Gain(name="again")(keras.layers.Flatten()(x))
    model = keras.Model(i, keras.layers.Dense(3, name="head")(x))
    for variable in model.weights:
        variable.assign(np.random.default_rng(1).normal(0.3, 0.5, variable.shape))
    return model


@pytest.mark.fast("True")
@pytest.mark.parametrize("contrast", first_fast([True, False], 1))
def test_a_layer_of_ones_own_is_transparent_in_every_layout(contrast: bool, cluster: Any) -> None:
    model = _net(contrast)
    rng = np.random.default_rng(3)
    steps = Steps([rng.normal(size=(8, 5, 4, 2)) for _ in range(2)], [rng.normal(size=(8, 3)) for _ in range(2)], [None] * 2)
    optimizer = lambda: keras.optimizers.SGD(0.05, momentum=0.9)  # noqa: E731
    loss = lambda: keras.losses.MeanSquaredError()  # noqa: E731
    losses, weights = keras_run(model, optimizer(), loss(), steps)
    plans = [
        hm.Plan.filters(model, [3, 2, 1], cluster, 8),
        hm.Plan.filters(model, [3, 2, 1], cluster, 8, pairing="gather"),
        hm.Plan.batch(model, [4, 3, 1], cluster, 8),
    ]
    assert plans[0].stages[0].layouts[2].layout == "split"
    assert {layout.layout for layout in plans[2].stages[0].layouts if layout.name == "contrast"} == ({"replicated"} if contrast else set())
    placements = []
    for plan in plans:
        ours, trained, placement = our_run(model, plan, cluster, optimizer(), loss(), steps)
        assert np.abs(np.subtract(losses, ours)).max() <= 1e-8
        assert worst_error(weights, trained) <= 1e-8
        placements.append(placement)
    assert [shape for _, shape in placements[0]["gain"]["gain"]] == [(3,), (2,), (1,)]


def test_a_layer_of_ones_own_has_its_options_and_variables_in_the_graph() -> None:
    layer = layer_graph(_net()).layers[2]
    assert (layer.kind, layer.attributes, layer.variables) == ("mine>Gain", {"power": 2}, (Variable("gain", (6,), True),))
    assert isinstance(kind_of(layer), GainKind)


def test_a_layer_of_ones_own_that_is_not_registered_is_computed_by_its_own_call() -> None:
    del KINDS["mine>Gain"]
    layer = next(layer for layer in layer_graph(_net()).layers if layer.name == "gain")
    assert is_keras_call(layer) and kind_of(layer).layouts(layer) == {"replicated", "split"}


def test_a_kind_may_be_registered_anew_but_not_under_the_name_of_a_known_one() -> None:
    again = GainKind()
    assert register(again) is again is KINDS["mine>Gain"]

    class Other(GainKind):
        keras_class = "Dense"

    with pytest.raises(
        UnsupportedError, match="Dense is known already and cannot be replaced; register a layer under a name such as mine>Ga"
    ):
        register(Other())
