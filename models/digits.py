"""A network for the 8x8 digits, wide enough that splitting its filters pays."""

from __future__ import annotations

from collections.abc import Sequence

import keras


def wide_digits(filters: Sequence[int] = (128, 256, 256), kernel_size: int = 5, classes: int = 10) -> keras.Model:
    """Return a convolutional network for the digits: square convolutions, one 2x2 pool after the second, and one dense layer.

    Filters and kernels are large for so small an image: arithmetic grows with the kernel's area and the channels on both of its sides,
    what the devices send each other only with the channels on one.

    Parameters
    ----------
    filters : filters of each convolution, two at least.
    kernel_size : height and width of their kernels.
    classes : number of logits.

    Returns
    -------
    keras.Model from (samples, 8, 8, 1) images to (samples, classes) logits.
    """
    layers = keras.layers
    inputs = x = keras.Input((8, 8, 1), name="image")
    for number, width in enumerate(filters, 1):
        options = {"padding": "same", "activation": "relu", "kernel_initializer": "he_normal"}
        x = layers.Conv2D(width, kernel_size, name=f"conv{number}", **options)(x)
        if number == 2:
            x = layers.MaxPooling2D(2, name="pool")(x)
    x = layers.Flatten(name="flatten")(x)
    return keras.Model(inputs, layers.Dense(classes, name="logits")(x), name="wide_digits")
