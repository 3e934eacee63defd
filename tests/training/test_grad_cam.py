"""Grad-CAM: where the map lies, for whom it speaks, and which layer it is of."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.training.grad_cam import GradCam, spread

SHAPE = (8, 6, 4)
CORNER = np.zeros(SHAPE, np.float32)
CORNER[:4, :3, :2] = 1.0


def corners(outputs: int, activation: str | None = None, pooled: bool = True) -> keras.Model:
    """Return a network of two channels, the left end and the right end, that says how bright each is."""
    layers = keras.layers
    inputs = x = keras.Input((*SHAPE, 1))
    x = layers.Conv3D(2, 1, activation="relu", name="ends")(x)
    x = layers.AveragePooling3D(2, name="pool")(x) if pooled else x
    x = layers.GlobalAveragePooling3D(name="mean")(x)
    model = keras.Model(inputs, layers.Dense(outputs, activation=activation, name="head")(x))
    model.get_layer("ends").set_weights([np.array([1.0, -1.0]).reshape(1, 1, 1, 1, 2), np.zeros(2)])
    head = np.array([[3.0, -3.0], [-3.0, 3.0]]) if outputs == 2 else np.array([[-3.0], [3.0]])
    model.get_layer("head").set_weights([head, np.zeros(outputs)])
    return model


@pytest.mark.fast("None")
@pytest.mark.parametrize("activation", [None, "softmax"])
def test_the_map_of_a_class_lies_where_what_speaks_for_it_is(activation: str | None) -> None:
    cam = GradCam(corners(2, activation), activation or "")
    x = (CORNER - np.flip(CORNER))[..., None]
    assert cam.layer == "ends"
    np.testing.assert_allclose(cam.map(x, 0), CORNER, atol=1e-6)
    np.testing.assert_allclose(cam.map(x, 1), np.flip(CORNER), atol=1e-6)


@pytest.mark.fast("None")
@pytest.mark.parametrize("activation", [None, "sigmoid"])
def test_one_output_speaks_for_the_second_class_and_against_the_first(activation: str | None) -> None:
    cam = GradCam(corners(1, activation), activation or "")
    x = (CORNER - np.flip(CORNER))[..., None]
    np.testing.assert_allclose(cam.map(x, 0), CORNER, atol=1e-6)
    np.testing.assert_allclose(cam.map(x, 1), np.flip(CORNER), atol=1e-6)


@pytest.mark.fast("2-sigmoid-1.0")
@pytest.mark.parametrize("times", [1.0, 30.0, 1000.0])
@pytest.mark.parametrize(("outputs", "activation"), [(1, "sigmoid"), (2, "softmax"), (2, "sigmoid")])
def test_a_sure_network_has_the_map_of_its_scores(outputs: int, activation: str, times: float) -> None:
    squashed, plain = corners(outputs, activation), corners(outputs)
    for model in (squashed, plain):
        model.get_layer("head").set_weights([weight * times for weight in model.get_layer("head").get_weights()])
    x = CORNER[..., None]
    for number in range(2):
        found = GradCam(squashed, activation).map(x, number)
        np.testing.assert_allclose(found, GradCam(plain).map(x, number), atol=1e-6)
        np.testing.assert_allclose(found, CORNER if number == 0 else 0.0, atol=1e-6)


def test_a_softmax_layer_of_its_own_has_the_map_of_its_scores() -> None:
    plain = corners(2)
    model = keras.Model(plain.inputs, keras.layers.Softmax()(plain.output))
    np.testing.assert_allclose(GradCam(model, "softmax").map(100 * CORNER[..., None], 0), CORNER, atol=1e-6)


def test_the_map_is_the_weighted_sum_of_channels_of_the_paper() -> None:
    keras.utils.set_random_seed(1)
    inputs = x = keras.Input((*SHAPE, 1))
    x = keras.layers.Conv3D(5, 3, padding="same", activation="relu", name="last")(x)
    model = keras.Model(inputs, keras.layers.Dense(3, name="head")(keras.layers.GlobalAveragePooling3D()(x)))
    x = np.random.default_rng(2).normal(size=(*SHAPE, 1)).astype(np.float32)
    channels = keras.Model(inputs, model.get_layer("last").output)(x[None])[0].numpy()
    summed = np.maximum(channels @ model.get_layer("head").get_weights()[0][:, 2], 0)  # a mean's gradient is the head's weight
    np.testing.assert_allclose(GradCam(model).map(x, 2), summed / summed.max(), rtol=1e-4, atol=1e-5)


def test_where_nothing_speaks_for_a_class_the_map_is_zero() -> None:
    found = GradCam(corners(2)).map(np.abs(CORNER)[..., None], 1)
    assert found.shape == SHAPE and not found.any()


@pytest.mark.fast("False")
@pytest.mark.parametrize("pooled", [True, False])
def test_a_map_is_bounded_by_a_mask_and_scaled_within_it(pooled: bool) -> None:
    cam, inside = GradCam(corners(2, pooled=pooled)), np.zeros(SHAPE, bool)
    inside[:3, :2, :] = True
    x = (0.25 * CORNER + np.flip(CORNER) * np.linspace(1, 9, SHAPE[0])[:, None, None].astype(np.float32))[..., None]
    free, bounded = cam.map(x, 0), cam.map(x, 0, inside)
    assert not inside[np.unravel_index(free.argmax(), SHAPE)]
    assert bounded.shape == SHAPE and bounded.dtype == np.float32 and bounded.max() == 1.0 and not bounded[~inside].any()
    np.testing.assert_allclose(bounded[inside], free[inside] / free[inside].max(), rtol=1e-5)
    assert not cam.map(x, 0, np.zeros(SHAPE, bool)).any()
    np.testing.assert_allclose(cam.map(x, 0, np.ones(SHAPE, bool)), free / free.max(), rtol=1e-5)


@pytest.mark.slow
def test_what_follows_the_last_convolution_on_its_grid_counts_and_pools_do_not() -> None:
    layers = keras.layers
    inputs = x = keras.Input((8, 8, 8, 1))
    x = layers.Conv3D(2, 3, strides=2, padding="same", name="conv")(x)
    x = layers.ReLU(name="relu")(layers.Add(name="add")([x, layers.Conv3D(2, 3, padding="same", name="branch")(x)]))
    x = layers.MaxPooling3D(1, name="pool")(x)
    model = keras.Model(inputs, layers.Dense(2)(layers.Flatten()(x)))
    assert GradCam(model).layer == "relu" and GradCam(model, layer="conv").layer == "conv"
    assert GradCam(model, layer="conv").map(np.ones((8, 8, 8, 1), np.float32), 0).shape == (8, 8, 8)


def test_a_coarse_map_covers_the_whole_volume() -> None:
    cells = np.zeros((2, 2, 2), np.float32)
    cells[0, 0, 0] = 1.0
    found = spread(cells, (8, 8, 8))
    assert found[:2, :2, :2].min() == 1.0 and found[6:].max() == 0.0 and found[0, 0, 3] == pytest.approx(0.625)


def test_a_layer_that_gives_no_volume_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="'head' is no layer whose output is a volume; there are .*ends, pool"):
        GradCam(corners(2), layer="head")
    flat = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)], name="flat")
    with pytest.raises(UnsupportedError, match="flat has no convolution of volumes whose maps could be drawn; name a layer"):
        GradCam(flat)
