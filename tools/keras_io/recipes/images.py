"""Recipes of examples that classify or make images and volumes."""

from __future__ import annotations

import functools
import pathlib
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

from tools.keras_io.recipe import (
    Recipe,
    files,
    images,
    keras_images,
    replace,
    stub_addons,
    stub_datasets,
    stub_module,
    written_image,
)

CHECKPOINT = ('"/tmp/checkpoint"', '"checkpoint.weights.h5"')


def digits(train: int = 600, test: int = 100) -> Callable[[], None]:
    """Return what prepares generated images in place of MNIST.

    Parameters
    ----------
    train, test : number of images.
    """
    return functools.partial(keras_images, "mnist", (28, 28), train, test)


def colours(train: int, test: int, classes: int = 10) -> Callable[[], None]:
    """Return what prepares generated images in place of CIFAR-10 or CIFAR-100, with the optimizers of TensorFlow Addons.

    Parameters
    ----------
    train, test : number of images.
    classes : number of labels.
    """

    def prepare() -> None:
        stub_addons()
        keras_images(f"cifar{classes}", (32, 32, 3), train, test, classes, column=True)

    return prepare


def _pets() -> None:
    pixels, _ = images(24, (60, 80, 3))
    for i, picture in enumerate(pixels):
        written_image(pathlib.Path(f"images/pet_{i:03}.jpg"), picture)
        written_image(pathlib.Path(f"annotations/trimaps/pet_{i:03}.png"), (1 + picture[..., 0] // 86).astype("uint8"))


def _bags() -> None:
    stub_module("tqdm", tqdm=lambda items, **options: items)
    digits()()


def _scans() -> None:
    def write(folder: pathlib.Path) -> pathlib.Path:
        import nibabel

        rng = np.random.default_rng(0)
        for name, level in (("CT-0", -600), ("CT-23", -300)):
            with zipfile.ZipFile(folder / f"{name}.zip", "w") as archive:
                for i in range(3):
                    volume = nibabel.Nifti1Image(rng.normal(level, 200, (96, 96, 40)).astype("float32"), np.eye(4))
                    archive.writestr(f"{name}/study_{i}.nii", volume.to_bytes())
        return folder

    files(write)


def _horses() -> None:
    train, test = (images(count, (300, 300, 3), 2, seed) for count, seed in ((24, 0), (8, 1)))
    stub_datasets({"train": train, "test": test}, ("horses", "humans"))


def _flowers() -> None:
    import keras

    train, test = (images(count, (240, 240, 3), 5, seed) for count, seed in ((36, 0), (30, 1)))
    stub_datasets({"train[:90%]": train, "train[90%:]": test}, ("dandelion", "daisy", "tulips", "sunflowers", "roses"))
    mobile = keras.applications.MobileNetV2

    def untrained(*arguments: Any, **options: Any) -> Any:
        return mobile(*arguments, **{**options, "weights": None})

    replace("applications.MobileNetV2", untrained)


RECIPES = (
    Recipe("mnist_convnet", "vision/mnist_convnet.py", prepare=digits()),
    Recipe("autoencoder", "vision/autoencoder.py", prepare=digits()),
    Recipe("antirectifier", "keras_recipes/antirectifier.py", prepare=digits()),
    Recipe(
        "attention_mil_classification",
        "vision/attention_mil_classification.py",
        (
            *(
                ("\nBAG_COUNT = 1000", "\nBAG_COUNT = 60"),
                ("VAL_BAG_COUNT = 300", "VAL_BAG_COUNT = 40"),
                ("PLOT_SIZE = 3", "PLOT_SIZE = 0"),
            ),
            ('"/tmp/best_model_weights.h5"', '"best_model.weights.h5"'),
        ),
        _bags,
    ),
    Recipe(
        "oxford_pets_image_segmentation",
        "vision/oxford_pets_image_segmentation.py",
        (("batch_size = 32", "batch_size = 4"), ("val_samples = 1000", "val_samples = 12")),
        _pets,
    ),
    Recipe(
        "image_classification_with_vision_transformer",
        "vision/image_classification_with_vision_transformer.py",
        (("batch_size = 256", "batch_size = 8"), CHECKPOINT),
        colours(27, 8, 100),
        random=True,
        single=True,
    ),
    Recipe(
        "convmixer",
        "vision/convmixer.py",
        (("batch_size = 128", "batch_size = 16"), ("num_filters = 256", "num_filters = 4"), CHECKPOINT),
        colours(48, 16),
    ),
    Recipe("involution", "vision/involution.py", (("(32, 256, 256, 3)", "(2, 256, 256, 3)"),), colours(600, 100)),
    Recipe(
        "gradient_centralization",
        "vision/gradient_centralization.py",
        (("batch_size = 128", "batch_size = 8"),),
        _horses,
        single=True,  # Keras rotates images in float32 alone
    ),
    Recipe(
        "sample_size_estimate",
        "keras_recipes/sample_size_estimate.py",
        (
            *(
                ("batch_size = 64", "batch_size = 16"),
                ("mse(y_pred, mean_acc)", "mse(tf.constant(mean_acc), y_pred)"),
                ("mae(mean_acc,", "mae(tf.constant(mean_acc),"),
                ("training_epochs = 5000", "training_epochs = 50"),
            ),
        ),
        _flowers,
        single=True,
    ),
    Recipe(
        "3D_image_classification",
        "vision/3D_image_classification.py",
        (
            *(("desired_width = 128", "desired_width = 64"), ("desired_height = 128", "desired_height = 64")),
            *(("abnormal_scans[:70], normal_scans[:70]", "abnormal_scans[:2], normal_scans[:2]"),),
            *(("abnormal_labels[:70], normal_labels[:70]", "abnormal_labels[:2], normal_labels[:2]"),),
            *(("abnormal_scans[70:], normal_scans[70:]", "abnormal_scans[2:], normal_scans[2:]"),),
            *(("abnormal_labels[70:], normal_labels[70:]", "abnormal_labels[2:], normal_labels[2:]"),),
            ("volume = rotate(volume)", "volume = tf.ensure_shape(rotate(volume), (64, 64, 64))"),
            ("plot_slices(4, 10, 128, 128,", "plot_slices(4, 10, 64, 64,"),
            ("model = get_model(width=128, height=128, depth=64)", "model = get_model(width=64, height=64, depth=64)"),
        ),
        _scans,
        single=True,  # TensorFlow pools volumes in float32 alone
    ),
)
