"""A network in the proportions of AlexNet for small images: convolutions hold the work, dense layers the weights.

Krizhevsky, Sutskever, Hinton, "ImageNet classification with deep convolutional neural networks", NIPS 2012, as one tower in the form of
Krizhevsky, "One weird trick for parallelizing convolutional neural networks", arXiv 1404.5997, 2014: five convolutions, three overlapping
pools, two hidden dense layers. Departures: a start of 5x5 and stride 2 for small images instead of 11x11 and stride 4, "same" padding
everywhere, no local response normalisation.
"""

from __future__ import annotations

from collections.abc import Sequence

import keras

FILTERS = (64, 192, 384, 256, 256)
POOLED = (1, 2, 5)
HIDDEN = 4096


def alexnet(
    size: int = 64,
    filters: Sequence[int] = FILTERS,
    hidden: int = HIDDEN,
    channels: int = 3,
    classes: int = 100,
    dropout: float = 0.0,
) -> keras.Model:
    """Return a network of five convolutions, three pools and three dense layers.

    Parameters
    ----------
    size : height and width of an image, pixels; 64 leave 4x4 for the dense layers.
    filters : (5,) filters of each convolution.
    hidden : units of each of the two hidden dense layers.
    channels : channels of an image.
    classes : number of logits.
    dropout : fraction dropped before each hidden dense layer; 0 leaves the dropout layers out.

    Returns
    -------
    keras.Model from (samples, size, size, channels) images to (samples, classes) logits.
    """
    layers = keras.layers
    inputs = x = keras.Input((size, size, channels), name="image")
    for number, count in enumerate(filters, 1):
        window, strides = ((5, 2), (5, 1))[number - 1] if number <= 2 else (3, 1)
        settings = {"strides": strides, "padding": "same", "activation": "relu", "kernel_initializer": "he_normal"}
        x = layers.Conv2D(count, window, **settings, name=f"conv{number}")(x)
        if number in POOLED:
            x = layers.MaxPooling2D(3, 2, padding="same", name=f"pool{POOLED.index(number) + 1}")(x)
    x = layers.Flatten(name="flatten")(x)
    for number in (1, 2):
        x = layers.Dropout(dropout, name=f"drop{number}")(x) if dropout else x
        x = layers.Dense(hidden, activation="relu", kernel_initializer="he_normal", name=f"hidden{number}")(x)
    return keras.Model(inputs, layers.Dense(classes, name="logits")(x), name="alexnet")
