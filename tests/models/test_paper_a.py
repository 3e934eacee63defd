from __future__ import annotations

import keras
import pytest

from models.paper_a import cifar, mnist


def weights(model) -> dict[str, int]:
    return {layer.name: layer.count_params() for layer in model.layers if layer.count_params()}


def layers(model, kind: str) -> list[keras.layers.Layer]:
    return [layer for layer in model.layers if kind in type(layer).__name__]


def test_the_cifar_network_has_the_released_layers() -> None:
    model = cifar()
    convolutions = {
        "conv1": 9 * 3 * 60,
        "conv2": 9 * 60 * 60,
        "conv3": 9 * 60 * 120,
        "conv4": 9 * 120 * 120,
        "conv5": 9 * 120 * 240,
        "conv6": 9 * 240 * 240,
        "conv7": 9 * 240 * 480,
        "conv8": 9 * 480 * 480,
    }
    assert weights(model) == {**convolutions, "hidden": 2 * 2 * 480 * 256 + 256, "logits": 256 * 10 + 10}
    assert sum(convolutions.values()) == 4_116_420 and model.count_params() == 4_610_766
    assert [type(pool).__name__ for pool in layers(model, "Pool")] == ["MaxPooling2D"] * 4
    assert [model.get_layer(f"pool{n}").output.shape[1:] for n in (1, 2, 3, 4)] == [(16, 16, 60), (8, 8, 120), (4, 4, 240), (2, 2, 480)]


def test_the_mnist_network_has_the_released_layers_with_one_average_pool_after_the_third_convolution() -> None:
    model = mnist()
    assert weights(model) == {
        "conv1": 49 * 60,
        "conv2": 25 * 60 * 120,
        "conv3": 9 * 120 * 240,
        "hidden": 14 * 14 * 240 * 128 + 128,
        "logits": 128 * 10 + 10,
    }
    assert model.count_params() == 6_464_678
    (pool,) = layers(model, "Pool")
    assert isinstance(pool, keras.layers.AveragePooling2D) and pool.pool_size == pool.strides == (2, 2)
    assert pool.input is model.get_layer("conv3").output and pool.output.shape[1:] == (14, 14, 240)


@pytest.mark.parametrize("build", [cifar, mnist])
def test_no_convolution_has_a_bias_and_every_dense_layer_has_one(build) -> None:
    model = build()
    assert not any(layer.use_bias for layer in layers(model, "Conv")) and all(layer.use_bias for layer in layers(model, "Dense"))
    assert {layer.padding for layer in layers(model, "Conv")} == {"same"}
    assert {layer.activation.__name__ for layer in [*layers(model, "Conv"), model.get_layer("hidden")]} == {"relu"}
    assert model.get_layer("logits").activation.__name__ == "linear"
