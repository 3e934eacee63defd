"""A U-Net for volumes: instance norm and leaky ReLU, convolutions of stride 2 down and transposed ones up, as nnU-Net's plain network has.

Isensee, Jaeger, Kohl, Petersen, Maier-Hein, "nnU-Net: a self-configuring method for deep learning-based biomedical image segmentation",
Nature Methods 18 (2021) 203-211, doi 10.1038/s41592-020-01008-z.
"""

from __future__ import annotations

from collections.abc import Sequence

import keras

SLOPE = 0.01  # of leaky ReLU below 0


def unet3d(
    size: int | Sequence[int | None] | None = None, channels: int = 1, classes: int = 2, filters: Sequence[int] = (32, 64, 128, 256, 320)
) -> keras.Model:
    """Return a U-Net whose outputs are logits of each voxel.

    Parameters
    ----------
    size : extents of volumes, multiples of 2 to the number of levels less one; None for any.
    channels : of a volume.
    classes : of a voxel.
    filters : of each level, the finest first.

    Returns
    -------
    keras.Model from (samples, *size, channels) volumes to (samples, *size, classes) logits.
    """
    layers = keras.layers
    extents = (size,) * 3 if size is None or isinstance(size, int) else tuple(size)
    inputs = x = keras.Input((*extents, channels), name="volume")
    skipped = []
    for level, count in enumerate(filters):
        for number in (1, 2):
            x = _block(x, count, 2 if level and number == 1 else 1, f"down{level}_{number}")
        skipped.append(x)
    for level in reversed(range(len(filters) - 1)):
        x = layers.Conv3DTranspose(filters[level], 2, 2, name=f"up{level}")(x)
        x = layers.Concatenate(name=f"joined{level}")([x, skipped[level]])
        for number in (1, 2):
            x = _block(x, filters[level], 1, f"up{level}_{number}")
    return keras.Model(inputs, layers.Conv3D(classes, 1, name="logits")(x), name="unet3d")


def _block(x: keras.KerasTensor, filters: int, stride: int, name: str) -> keras.KerasTensor:
    layers = keras.layers
    x = layers.Conv3D(filters, 3, stride, padding="same", name=f"{name}_conv")(x)
    x = layers.GroupNormalization(-1, epsilon=1e-5, name=f"{name}_norm")(x)
    return layers.LeakyReLU(SLOPE, name=f"{name}_relu")(x)
