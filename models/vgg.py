"""VGG-11 for small images, and a network that ends a stage earlier.

Simonyan, Zisserman, "Very deep convolutional networks for large-scale image recognition", ICLR 2015, configuration A; here with one
hidden dense layer of 512 instead of two of 4096, as 32x32 images leave one pixel after the five pools.
"""

from __future__ import annotations

from collections.abc import Sequence

import keras

STAGES = ((64,), (128,), (256, 256), (512, 512), (512, 512))
HIDDEN = 512


def vgg11(batch_norm: bool = False, dropout: float = 0.0, size: int = 32, channels: int = 3, classes: int = 10) -> keras.Model:
    """Return VGG-11: eight 3x3 convolutions in five stages, each ending in a 2x2 pool, and two dense layers.

    Parameters
    ----------
    batch_norm : whether each convolution is followed by batch normalisation, and then has no bias.
    dropout : fraction dropped before each dense layer; 0 leaves the dropout layers out.
    size : height and width of an image, pixels, 32 at least.
    channels : channels of an image.
    classes : number of logits.

    Returns
    -------
    keras.Model from (samples, size, size, channels) images to (samples, classes) logits.
    """
    layers = keras.layers
    inputs = keras.Input((size, size, channels), name="image")
    x = layers.Flatten(name="flatten")(_stages(inputs, STAGES, batch_norm))
    x = layers.Dropout(dropout, name="drop1")(x) if dropout else x
    x = layers.Dense(HIDDEN, activation="relu", kernel_initializer="he_normal", name="hidden")(x)
    x = layers.Dropout(dropout, name="drop2")(x) if dropout else x
    return keras.Model(inputs, layers.Dense(classes, name="logits")(x), name="vgg11_bn" if batch_norm else "vgg11")


def vgg8(size: int = 32, channels: int = 3, classes: int = 10) -> keras.Model:
    """Return VGG-11 without its last stage and with a smaller hidden dense layer.

    Six 3x3 convolutions of 64, 128, 256, 256, 512 and 512 filters, a 2x2 pool after the first, second, fourth and sixth as in VGG-11,
    and dense layers of 256 and `classes` units.

    Parameters
    ----------
    size : height and width of an image, pixels, 16 at least.
    channels : channels of an image.
    classes : number of logits.

    Returns
    -------
    keras.Model from (samples, size, size, channels) images to (samples, classes) logits.
    """
    layers = keras.layers
    inputs = keras.Input((size, size, channels), name="image")
    x = layers.Flatten(name="flatten")(_stages(inputs, STAGES[:4], batch_norm=False))
    x = layers.Dense(256, activation="relu", kernel_initializer="he_normal", name="hidden")(x)
    return keras.Model(inputs, layers.Dense(classes, name="logits")(x), name="vgg8")


def _stages(x: keras.KerasTensor, stages: Sequence[Sequence[int]], batch_norm: bool) -> keras.KerasTensor:
    """Return what stages of convolutions, each ending in a 2x2 pool, make of images."""
    for stage, widths in enumerate(stages, 1):
        for number, filters in enumerate(widths, 1):
            x = _convolution(x, filters, batch_norm, name=f"conv{stage}_{number}")
        x = keras.layers.MaxPooling2D(2, name=f"pool{stage}")(x)
    return x


def _convolution(x: keras.KerasTensor, filters: int, batch_norm: bool, name: str) -> keras.KerasTensor:
    layers = keras.layers
    x = layers.Conv2D(filters, 3, padding="same", use_bias=not batch_norm, kernel_initializer="he_normal", name=name)(x)
    x = layers.BatchNormalization(name=f"{name}_norm")(x) if batch_norm else x
    return layers.ReLU(name=f"{name}_relu")(x)
