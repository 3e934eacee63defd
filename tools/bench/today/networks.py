"""Networks of today as users write them: a U-Net of volumes, a vision transformer and a ConvNeXt, each with its loss and data."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tools.bench.comparison.side_by_side import TrainingTask


def unet3d(size: int = 32, filters: int = 16, levels: int = 2) -> Any:
    """Return a U-Net of volumes with one channel: two convolutions with batch norm at each level, one sigmoid map.

    Parameters
    ----------
    size : voxels along each side, divisible by 2**levels.
    filters : of the first level; each level below has twice as many.
    levels : number of times that the volume is halved.
    """
    import keras

    layers = keras.layers

    def block(x: Any, count: int) -> Any:
        for _ in range(2):
            x = layers.Conv3D(count, 3, padding="same", use_bias=False)(x)
            x = layers.Activation("relu")(layers.BatchNormalization()(x))
        return x

    x = inputs = keras.Input((size, size, size, 1))
    skipped = []
    for level in range(levels):
        x = block(x, filters << level)
        skipped.append(x)
        x = layers.MaxPooling3D(2)(x)
    x = block(x, filters << levels)
    for level in reversed(range(levels)):
        x = layers.Conv3DTranspose(filters << level, 2, strides=2)(x)
        x = block(layers.Concatenate()([x, skipped[level]]), filters << level)
    return keras.Model(inputs, layers.Conv3D(1, 1, activation="sigmoid")(x))


def vit(size: int = 32, patch: int = 4, width: int = 192, depth: int = 4, heads: int = 3, classes: int = 10) -> Any:
    """Return a vision transformer: patches, learnt positions, blocks of attention and two dense layers, the mean of the tokens.

    Parameters
    ----------
    size, patch : pixels along a side of the image and of a patch.
    width : channels of a token.
    depth : number of blocks.
    heads : of each attention, of width / heads channels each.
    classes : number of logits.
    """
    import keras

    layers = keras.layers

    class Positions(layers.Layer):  # type: ignore[misc]
        """A learnt vector for each position, added to it."""

        def build(self, shape: Any) -> None:
            self.table = self.add_weight(shape=shape[1:], initializer="random_normal", name="table")

        def call(self, x: Any) -> Any:
            return x + self.table

    inputs = keras.Input((size, size, 3))
    x = layers.Conv2D(width, patch, strides=patch)(inputs)
    x = Positions()(layers.Reshape((-1, width))(x))
    for _ in range(depth):
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        x = x + layers.MultiHeadAttention(heads, width // heads)(y, y)
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        x = x + layers.Dense(width)(layers.Dense(4 * width, activation="gelu")(y))
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization(epsilon=1e-6)(x))
    return keras.Model(inputs, layers.Dense(classes)(x))


def convnext(size: int = 32, widths: tuple[int, ...] = (64, 128, 256), depth: int = 2, classes: int = 10) -> Any:
    """Return a ConvNeXt: stages of blocks of a 7x7 depthwise convolution, layer norm and two dense layers, scaled and added.

    Parameters
    ----------
    size : pixels along a side of the image; the stem halves it, and so does each stage but the first.
    widths : channels of each stage.
    depth : blocks of a stage.
    classes : number of logits.
    """
    import keras

    layers = keras.layers

    class Scale(layers.Layer):  # type: ignore[misc]
        """One factor a channel, small at first."""

        def build(self, shape: Any) -> None:
            self.gamma = self.add_weight(shape=(shape[-1],), initializer=keras.initializers.Constant(0.1), name="gamma")

        def call(self, x: Any) -> Any:
            return x * self.gamma

    x = inputs = keras.Input((size, size, 3))
    for stage, width in enumerate(widths):
        x = layers.LayerNormalization(epsilon=1e-6)(x) if stage else x
        x = layers.Conv2D(width, 2, strides=2)(x)
        x = x if stage else layers.LayerNormalization(epsilon=1e-6)(x)
        for _ in range(depth):
            y = layers.LayerNormalization(epsilon=1e-6)(layers.DepthwiseConv2D(7, padding="same")(x))
            y = layers.Dense(width)(layers.Dense(4 * width, activation="gelu")(y))
            x = x + Scale()(y)
    x = layers.LayerNormalization(epsilon=1e-6)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(inputs, layers.Dense(classes)(x))


class SegmentationTask(TrainingTask):
    """A model that outputs a map of probabilities, trained by Dice."""

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """The optimizer and the loss."""
        import keras

        return {"optimizer": keras.optimizers.SGD(0.001, momentum=0.9), "loss": keras.losses.Dice()}

    def drawn(self, samples: int) -> tuple[np.ndarray, np.ndarray]:
        """Return noise, and where it is large."""
        x, _ = super().drawn(samples)
        return x, (x > 0.5).astype("float32")


@dataclasses.dataclass(frozen=True)
class UsersNetwork:
    """A network of the benches with what it is trained by.

    Parameters
    ----------
    title : what tables call it.
    seed : where it comes from, as tables of networks say.
    batch : samples per step.
    task : returns what is trained.
    """

    title: str
    seed: str
    batch: int
    task: Callable[[], TrainingTask]


def users_networks() -> dict[str, UsersNetwork]:
    """Return name -> network, each with a batch that takes a step of about half a second on one core."""

    def network(title: str, batch: int, kind: type[TrainingTask], build: Callable[[], Any]) -> UsersNetwork:
        return UsersNetwork(title, "written", batch, lambda: kind(build(), batch))

    return {
        "unet3d": network("3-D U-Net, 32x32x32", 4, SegmentationTask, unet3d),
        "vit": network("ViT, 4 blocks of 192", 48, TrainingTask, vit),
        "convnext": network("ConvNeXt, 6 blocks", 64, TrainingTask, convnext),
    }
