"""3-D residual networks with self-attention, for images of the brain.

Zhang, Han, Zhu, Sun, Zhang, "An explainable 3D residual self-attention deep neural network for joint atrophy localization and Alzheimer's
disease diagnosis using structural MRI", IEEE Journal of Biomedical and Health Informatics 26(11) 2022, 5289-5297, arXiv 2008.04024.

Known of it: a 3-D residual network with self-attention, to capture local, global and spatial information of an image, explained by
Grad-CAM (its abstract); of 18 or 34 layers (He, Zhang, Ren, Sun, "Deep residual learning for image recognition", CVPR 2016) whose
residual blocks are joined by self-attention blocks (the literature). The attention is that of non-local networks (Wang, Girshick, Gupta,
He, CVPR 2018) and of Zhang, Goodfellow, Metaxas, Odena, "Self-attention generative adversarial networks", ICML 2019: convolutions of one
voxel for query, key and value, a softmax over all positions, and a learnt weight of the branch that begins at 0.

This project's choice, as the paper's table of layers could not be read: the start, a convolution of 3x3x3 and stride 2 without a pool;
half of He's filters; batch norms that follow faster (momentum 0.9); attention behind the first block of the third and of the fourth
stage, right behind their downsampling, where positions are few enough (every pair of them has a score: 512 positions at 64x64x64 are 1
MiB of scores a volume, the second stage's 4096 would be 64 MiB); values of all the block's channels, and so no fourth convolution behind
their mean, which both those papers have as theirs are fewer; as many channels in queries and keys as in values, so that all three can be
split alike over devices; initial weights of queries and keys that give scores a variance of about 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import keras

from hetero_mtf.training.residual_weight import ResidualWeight

WIDTH = 32
RESNET18_BLOCKS = (2, 2, 2, 2)
RESNET34_BLOCKS = (3, 4, 6, 3)
ATTENTION = (3, 4)
MOMENTUM = 0.9  # of moving statistics: some tens of scans make a hundred steps, of which 0.99 would keep a third of the start
MOST_POSITIONS = 4096  # 64 MiB of scores a volume in float32


def resattnet18(
    size: int = 64, width: int = WIDTH, channels: int = 1, classes: int = 2, attention: Sequence[int] = ATTENTION, reduction: int = 1
) -> keras.Model:
    """Return 3D-ResAttNet-18 on cubes: two residual blocks in each of four stages, and self-attention.

    Parameters
    ----------
    size : depth, height and width of a volume, voxels; the start and every stage but the first halve them.
    width : filters of the first stage; every later one has twice as many as the one before.
    channels : channels of a voxel.
    classes : number of logits.
    attention : numbers of the stages, from 1, that have self-attention behind their first block.
    reduction : by what factor queries and keys have fewer channels than values; only with 1 can attention be split by channels.

    Returns
    -------
    keras.Model from (samples, size, size, size, channels) volumes to (samples, classes) logits.

    Raises
    ------
    ValueError
        If a stage with attention is not there, or has more than `MOST_POSITIONS` positions.
    """
    return resattnet(RESNET18_BLOCKS, size, width, channels, classes, attention, reduction, "resattnet18")


def resattnet34(
    size: int = 64, width: int = WIDTH, channels: int = 1, classes: int = 2, attention: Sequence[int] = ATTENTION, reduction: int = 1
) -> keras.Model:
    """Return 3D-ResAttNet-34 on cubes: 3, 4, 6 and 3 residual blocks in four stages, and self-attention.

    Parameters
    ----------
    size, width, channels, classes, attention, reduction : as for `resattnet18`.

    Returns
    -------
    keras.Model from (samples, size, size, size, channels) volumes to (samples, classes) logits.
    """
    return resattnet(RESNET34_BLOCKS, size, width, channels, classes, attention, reduction, "resattnet34")


def resattnet_small(size: int = 16, width: int = 8, channels: int = 1, classes: int = 2) -> keras.Model:
    """Return a network of the same kind that trains in seconds: one block in each of two stages, attention in the second.

    Parameters
    ----------
    size, width, channels, classes : as for `resattnet18`.

    Returns
    -------
    keras.Model from (samples, size, size, size, channels) volumes to (samples, classes) logits.
    """
    return resattnet((1, 1), size, width, channels, classes, (2,), 1, "resattnet_small")


def resattnet(
    blocks: Sequence[int], size: int, width: int, channels: int, classes: int, attention: Sequence[int], reduction: int, name: str
) -> keras.Model:
    """Return a residual network with self-attention of any depth.

    Parameters
    ----------
    blocks : (stages,) residual blocks of each stage.
    size, width, channels, classes, attention, reduction : as for `resattnet18`.
    name : name of the model.

    Raises
    ------
    ValueError
        As `resattnet18`.
    """
    layers = keras.layers
    _check_stages(attention, len(blocks))
    inputs = keras.Input((size, size, size, channels), name="volume")
    x = layers.ReLU(name="start_relu")(_convolution(inputs, width, 3, 2, "start"))
    for stage, count in enumerate(blocks, 1):
        for number in range(1, count + 1):
            x = _block(x, width * 2 ** (stage - 1), 2 if stage > 1 and number == 1 else 1, f"block{stage}_{number}")
            x = _attended(x, reduction, f"attention{stage}") if number == 1 and stage in attention else x
    x = layers.GlobalAveragePooling3D(name="mean")(x)
    return keras.Model(inputs, layers.Dense(classes, name="logits")(x), name=name)


def _check_stages(attention: Sequence[int], stages: int) -> None:
    absent = sorted(set(attention) - set(range(1, stages + 1)))
    if absent:
        raise ValueError(f"attention in stages {absent} of {stages}; give numbers from 1 to {stages}")


def _convolution(x: keras.KerasTensor, filters: int, window: int, strides: int, name: str) -> keras.KerasTensor:
    settings = {"strides": strides, "padding": "same", "use_bias": False, "kernel_initializer": "he_normal"}
    x = keras.layers.Conv3D(filters, window, **settings, name=name)(x)
    return keras.layers.BatchNormalization(momentum=MOMENTUM, name=f"{name}_norm")(x)


def _block(x: keras.KerasTensor, filters: int, strides: int, name: str) -> keras.KerasTensor:
    layers = keras.layers
    shortcut = x if strides == 1 else _convolution(x, filters, 1, strides, f"{name}_shortcut")
    x = layers.ReLU(name=f"{name}_relu1")(_convolution(x, filters, 3, strides, f"{name}_conv1"))
    x = layers.Add(name=f"{name}_add")([shortcut, _convolution(x, filters, 3, 1, f"{name}_conv2")])
    return layers.ReLU(name=f"{name}_relu2")(x)


def _attended(x: keras.KerasTensor, reduction: int, name: str) -> keras.KerasTensor:
    """Return `x` plus the weighted attention of all positions to all positions."""
    layers = keras.layers
    *space, filters = x.shape[1:]
    positions, few = math.prod(space), max(1, filters // reduction)
    if positions > MOST_POSITIONS:
        wrong = f"{name} has {positions} positions, whose scores take {positions**2 * 4 / 2**20:.0f} MiB a volume in float32"
        raise ValueError(f"{wrong}; give attention in later stages, or a smaller size")
    query, value, key = (
        layers.Reshape((positions, count), name=f"{name}_{part}_positions")(
            layers.Conv3D(count, 1, kernel_initializer=start, name=f"{name}_{part}")(x)
        )
        for part, count, start in (("query", few, _small(few)), ("value", filters, "he_normal"), ("key", few, _small(few)))
    )
    y = layers.Attention(name=f"{name}_attention")([query, value, key])
    y = ResidualWeight(name=f"{name}_weight")(layers.Reshape((*space, filters), name=f"{name}_volume")(y))
    return layers.Add(name=f"{name}_add")([x, y])


def _small(channels: int) -> keras.Initializer:
    """Return initial weights of queries or keys: the scalar products of both, over so many channels, have a variance of about 1."""
    return keras.initializers.VarianceScaling(channels**-0.5)
