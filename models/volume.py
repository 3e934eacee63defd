"""Residual networks for volumes, such as images of the brain.

He, Zhang, Ren, Sun, "Deep residual learning for image recognition", CVPR 2016, with convolutions along three dimensions: one start and
one or two blocks in each of four stages, which with the dense layer make ten or eighteen layers along the longest way. Departures: a start
of 3x3x3 and stride 2 without a pool for small volumes instead of 7x7 and a pool, and half the filters.
"""

from __future__ import annotations

from collections.abc import Sequence

import keras

FILTERS = (32, 64, 128, 256)


def resnet10_3d(size: int = 32, filters: Sequence[int] = FILTERS, channels: int = 1, classes: int = 2) -> keras.Model:
    """Return a residual network of one block a stage on cubes.

    Parameters
    ----------
    size : depth, height and width of a volume, voxels; the start and every stage but the first halve them.
    filters : width of each stage.
    channels : channels of a voxel.
    classes : number of logits.

    Returns
    -------
    keras.Model from (samples, size, size, size, channels) volumes to (samples, classes) logits.
    """
    return _residual(1, size, filters, channels, classes, "resnet10_3d")


def resnet18_3d(size: int = 32, filters: Sequence[int] = FILTERS, channels: int = 1, classes: int = 2) -> keras.Model:
    """Return a residual network of two blocks a stage on cubes.

    Parameters
    ----------
    size, filters, channels, classes : as for `resnet10_3d`.

    Returns
    -------
    keras.Model from (samples, size, size, size, channels) volumes to (samples, classes) logits.
    """
    return _residual(2, size, filters, channels, classes, "resnet18_3d")


def _residual(blocks: int, size: int, filters: Sequence[int], channels: int, classes: int, name: str) -> keras.Model:
    layers = keras.layers
    inputs = keras.Input((size, size, size, channels), name="volume")
    x = layers.ReLU(name="start_relu")(_convolution(inputs, filters[0], 3, 2, "start"))
    for stage, width in enumerate(filters, 1):
        for number in range(1, blocks + 1):
            block = f"block{stage}" if blocks == 1 else f"block{stage}_{number}"
            x = _block(x, width, 2 if stage > 1 and number == 1 else 1, block)
    x = layers.GlobalAveragePooling3D(name="mean")(x)
    return keras.Model(inputs, layers.Dense(classes, name="logits")(x), name=name)


def _convolution(x: keras.KerasTensor, filters: int, window: int, strides: int, name: str) -> keras.KerasTensor:
    settings = {"strides": strides, "padding": "same", "use_bias": False, "kernel_initializer": "he_normal"}
    x = keras.layers.Conv3D(filters, window, **settings, name=name)(x)
    return keras.layers.BatchNormalization(name=f"{name}_norm")(x)


def _block(x: keras.KerasTensor, filters: int, strides: int, name: str) -> keras.KerasTensor:
    layers = keras.layers
    shortcut = x if strides == 1 else _convolution(x, filters, 1, strides, f"{name}_shortcut")
    x = layers.ReLU(name=f"{name}_relu1")(_convolution(x, filters, 3, strides, f"{name}_conv1"))
    x = layers.Add(name=f"{name}_add")([shortcut, _convolution(x, filters, 3, 1, f"{name}_conv2")])
    return layers.ReLU(name=f"{name}_relu2")(x)
