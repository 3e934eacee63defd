"""Examples whose inputs are of any size, on generated images and films."""

from __future__ import annotations

import pathlib

import numpy as np

from tools.keras_io.recipe import Recipe, files, images, stub_module, written_image


def _photographs(folder: pathlib.Path) -> pathlib.Path:
    for part, count, seed in (("train", 9, 0), ("val", 3, 1), ("test", 3, 2)):
        blocks, _ = images(count, (27, 41, 3), 3, seed)
        for i, pixels in enumerate(np.repeat(np.repeat(blocks, 12, axis=1), 12, axis=2)[:, :321, :481]):
            written_image(folder / "BSR" / "BSDS500" / "data" / "images" / part / f"{i}.jpg", pixels)
    return folder / "BSR"


def _super_resolution() -> None:
    files(_photographs)


def _films(folder: pathlib.Path) -> pathlib.Path:
    """Write squares that move, 10 films of 20 images (12, 12) in place of 10,000 of (64, 64)."""
    frames = np.zeros((20, 10, 12, 12), "uint8")
    for film, (row, column) in enumerate(np.random.default_rng(0).integers(0, 8, size=(10, 2))):
        for time in range(20):
            y, x = (row + time) % 8, (column + time * (film % 3)) % 8
            frames[time, film, y : y + 4, x : x + 4] = 255
    np.save(folder / "moving_mnist.npy", frames)
    return folder / "moving_mnist.npy"


def _convolutional_lstm() -> None:
    files(_films)
    stub_module("imageio")
    stub_module("ipywidgets")


RECIPES = (
    Recipe(
        "super_resolution_sub_pixel",
        "vision/super_resolution_sub_pixel.py",
        edits=(
            ("batch_size = 8", "batch_size = 4"),
            # what Keras 3 refuses: a function of TensorFlow on a symbolic tensor, and a name of weights without its ending
            ("tf.nn.depth_to_space(x, upscale_factor)", "layers.Lambda(lambda t: tf.nn.depth_to_space(t, upscale_factor))(x)"),
            ('"/tmp/checkpoint"', '"checkpoint.weights.h5"'),
        ),
        prepare=_super_resolution,
    ),
    Recipe("conv_lstm", "vision/conv_lstm.py", edits=(("size=5", "size=1"),), prepare=_convolutional_lstm),
)
