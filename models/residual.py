"""A plain residual network of any depth.

He, Zhang, Ren, Sun, "Deep residual learning for image recognition", CVPR 2016, the CIFAR-10 family: blocks of two 3x3 convolutions with
batch normalisation, a shortcut around each. Departures: where a stage begins the shortcut is a 1x1 convolution (their option B), and
the number of blocks need not be the same in every stage.
"""

from __future__ import annotations

from collections.abc import Sequence

import keras

RESNET18_FILTERS = (64, 128, 256, 512)


def residual(
    convolutions: int = 50,
    filters: Sequence[int] = (16, 32, 64),
    size: int = 32,
    channels: int = 3,
    classes: int = 10,
    batch_norm: bool = True,
) -> keras.Model:
    """Return a residual network with a given number of convolutions.

    A stage but the first opens with a shortcut that is a convolution too, so s convolutions at the start, B blocks and S stages make
    s + 2 * B + S - 1 of them; s is 1, or 2 where the number asked for needs it. The first stages get a block more where B / S is not whole.

    Parameters
    ----------
    convolutions : how many in all, one-by-one shortcuts included; 50 gives 23 blocks.
    filters : width of each stage; every stage but the first halves height and width.
    size : height and width of an image, pixels.
    channels : channels of an image.
    classes : number of logits.
    batch_norm : whether each convolution is followed by batch normalisation, and then has no bias.

    Returns
    -------
    keras.Model from (samples, size, size, channels) images to (samples, classes) logits.

    Raises
    ------
    ValueError
        If there are too few convolutions for one block a stage.
    """
    starts, blocks = _divide(convolutions, filters)
    inputs = x = keras.Input((size, size, channels), name="image")
    for number in range(1, starts + 1):
        x = _convolution(x, filters[0], 3, 1, batch_norm, f"start{number}")
        x = keras.layers.ReLU(name=f"start{number}_relu")(x)
    for stage, (width, count) in enumerate(zip(filters, blocks), 1):
        for number in range(1, count + 1):
            x = _block(x, width, 2 if stage > 1 and number == 1 else 1, batch_norm, f"block{stage}_{number}")
    x = keras.layers.GlobalAveragePooling2D(name="mean")(x)
    return keras.Model(inputs, keras.layers.Dense(classes, name="logits")(x), name=f"residual{convolutions}")


def resnet18(size: int = 32, channels: int = 3, classes: int = 10) -> keras.Model:
    """Return ResNet-18 for small images: two blocks in each of four stages of 64 to 512 filters.

    The start is one 3x3 convolution of stride 1 without a pool, as is usual at 32x32, instead of the paper's 7x7 of stride 2 and pool.

    Parameters
    ----------
    size : height and width of an image, pixels.
    channels : channels of an image.
    classes : number of logits.

    Returns
    -------
    keras.Model from (samples, size, size, channels) images to (samples, classes) logits: 17 convolutions of 3x3 and 3 of 1x1.
    """
    return residual(20, RESNET18_FILTERS, size, channels, classes)


def _divide(convolutions: int, filters: Sequence[int]) -> tuple[int, list[int]]:
    stages = len(filters)
    free = convolutions - (stages - 1)
    starts = 2 - free % 2
    blocks = (free - starts) // 2
    if not stages or blocks < stages:
        raise ValueError(f"{convolutions} convolutions are too few for {stages} stages; use {3 * stages} at least, and one stage at least")
    return starts, [blocks // stages + (stage < blocks % stages) for stage in range(stages)]


def _convolution(x: keras.KerasTensor, filters: int, window: int, strides: int, batch_norm: bool, name: str) -> keras.KerasTensor:
    layers = keras.layers
    settings = {"strides": strides, "padding": "same", "use_bias": not batch_norm, "kernel_initializer": "he_normal"}
    x = layers.Conv2D(filters, window, **settings, name=name)(x)
    return layers.BatchNormalization(name=f"{name}_norm")(x) if batch_norm else x


def _block(x: keras.KerasTensor, filters: int, strides: int, batch_norm: bool, name: str) -> keras.KerasTensor:
    layers = keras.layers
    shortcut = x if strides == 1 else _convolution(x, filters, 1, strides, batch_norm, f"{name}_shortcut")
    x = _convolution(x, filters, 3, strides, batch_norm, f"{name}_conv1")
    x = layers.ReLU(name=f"{name}_relu1")(x)
    x = _convolution(x, filters, 3, 1, batch_norm, f"{name}_conv2")
    x = layers.Add(name=f"{name}_add")([shortcut, x])
    return layers.ReLU(name=f"{name}_relu2")(x)
