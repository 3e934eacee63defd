"""VGG-11 for small images.

Simonyan, Zisserman, "Very deep convolutional networks for large-scale image recognition", ICLR 2015, configuration A; here with one
hidden dense layer of 512 instead of two of 4096, as 32x32 images leave one pixel after the five pools.
"""

from __future__ import annotations

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
    inputs = x = keras.Input((size, size, channels), name="image")
    for stage, widths in enumerate(STAGES, 1):
        for number, filters in enumerate(widths, 1):
            x = _convolution(x, filters, batch_norm, name=f"conv{stage}_{number}")
        x = layers.MaxPooling2D(2, name=f"pool{stage}")(x)
    x = layers.Flatten(name="flatten")(x)
    x = layers.Dropout(dropout, name="drop1")(x) if dropout else x
    x = layers.Dense(HIDDEN, activation="relu", kernel_initializer="he_normal", name="hidden")(x)
    x = layers.Dropout(dropout, name="drop2")(x) if dropout else x
    return keras.Model(inputs, layers.Dense(classes, name="logits")(x), name="vgg11_bn" if batch_norm else "vgg11")


def _convolution(x: keras.KerasTensor, filters: int, batch_norm: bool, name: str) -> keras.KerasTensor:
    layers = keras.layers
    x = layers.Conv2D(filters, 3, padding="same", use_bias=not batch_norm, kernel_initializer="he_normal", name=name)(x)
    x = layers.BatchNormalization(name=f"{name}_norm")(x) if batch_norm else x
    return layers.ReLU(name=f"{name}_relu")(x)
