"""Examples of image models on generated images: pairs, masked convolutions, mixers and a seeded run."""

from __future__ import annotations

import functools
from typing import Any

from tools.keras_io.recipe import Recipe, keras_images, stub_addons, stub_module


def _pairs() -> None:
    keras_images("mnist", (28, 28), 128, 32)


def _digits() -> None:
    keras_images("mnist", (28, 28), 192, 64)


def _pixelcnn() -> None:
    keras_images("mnist", (28, 28), 32, 16)
    stub_module("tqdm", tqdm=iter)


def _without_random_images() -> None:
    """Leave images as they are in the layers that change them at random, as the rates of dropout are zero too."""
    import keras

    def unchanged(call: Any) -> Any:
        return lambda self, data, training=True: call(self, data, training=False)

    for layer in (keras.layers.RandomFlip, keras.layers.RandomZoom):
        layer.call = unchanged(layer.call)


def _mixers() -> None:
    import keras

    keras_images("cifar100", (32, 32, 3), 80, 32, classes=100, column=True)
    stub_addons()
    stub_module("tensorflow_addons.layers", GELU=lambda: keras.layers.Activation(functools.partial(keras.ops.gelu, approximate=True)))
    _without_random_images()


RECIPES = (
    Recipe(
        "siamese_contrastive",
        "vision/siamese_contrastive.py",
        edits=(
            ("x_train_val[:30000], x_train_val[30000:]", "x_train_val[:96], x_train_val[96:]"),
            ("y_train_val[:30000], y_train_val[30000:]", "y_train_val[:96], y_train_val[96:]"),
        ),
        prepare=_pairs,
    ),
    Recipe(
        "pixelcnn",
        "generative/pixelcnn.py",
        edits=(
            ("self.conv.kernel.get_shape()", "self.conv.kernel.shape"),  # the name of Keras 3
            ("batch_size=128", "batch_size=16"),
            ("range(rows)", "range(1)"),  # the first row of the images that it generates
        ),
        prepare=_pixelcnn,
    ),
    # its Fourier layer casts to float32
    Recipe(
        "mlp_image_classification",
        "vision/mlp_image_classification.py",
        edits=(("batch_size = 128", "batch_size = 24"),),
        prepare=_mixers,
        single=True,
    ),
    Recipe(
        "reproducibility_recipes",
        "keras_recipes/reproducibility_recipes.py",
        edits=(("(seed=42)(shape=(1, 1))", "(seed=42)(shape=(1, 1))[0, 0]"),),  # NumPy 2 makes no number of a matrix
        prepare=_digits,
    ),
)
