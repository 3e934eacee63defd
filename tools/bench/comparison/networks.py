"""The networks that plans are compared on, each with a batch that takes a step of about half a second on one core."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class BenchNetwork:
    """A network of the benches.

    Parameters
    ----------
    title : what tables call it.
    make : returns the Keras model.
    batch : samples per step.
    usual : samples per step that such networks are usually trained with; paper A's is the paper's.
    """

    title: str
    make: Callable[[], Any]
    batch: int
    usual: int


def paper_a() -> Any:
    """Return paper A's network for CIFAR-10, 4.61 million weights, no biases in its convolutions."""
    from models.paper_a import cifar

    return cifar()


def vgg11() -> Any:
    """Return VGG-11."""
    from models.vgg import vgg11

    return vgg11()


def vgg8() -> Any:
    """Return VGG-11 without its last stage: convolutions of 64, 128, 256, 256, 512 and 512 filters, dense layers of 256 and 10."""
    from models.vgg import vgg8

    return vgg8()


def resnet18() -> Any:
    """Return ResNet-18."""
    from models.residual import resnet18

    return resnet18()


def resnet50() -> Any:
    """Return a residual network of 50 convolutions for CIFAR-10, of 16, 32 and 64 filters."""
    from models.residual import residual

    return residual(50)


def volume() -> Any:
    """Return a residual network of ten layers on volumes of 32x32x32."""
    from models.volume import resnet10_3d

    return resnet10_3d()


def resattnet18() -> Any:
    """Return 3D-ResAttNet-18 on volumes of 48x48x48."""
    from models.resattnet3d import resattnet18

    return resattnet18(48)


def resattnet_small() -> Any:
    """Return a network of the kind of 3D-ResAttNet-18 with two blocks on volumes of 32x32x32."""
    from models.resattnet3d import resattnet_small

    return resattnet_small(32)


def resattnet34() -> Any:
    """Return 3D-ResAttNet-34 on volumes of 48x48x48."""
    from models.resattnet3d import resattnet34

    return resattnet34(48)


def alexnet() -> Any:
    """Return an AlexNet for 64x64 images with hidden dense layers of 2048, 14 million weights."""
    from models.alexnet import alexnet

    return alexnet(64, hidden=2048)


def convolutions(shape: tuple[int, int, int], filters: Sequence[int], classes: int) -> Any:
    """Return 3x3 convolutions with relu that keep height and width, the mean over both and a dense layer; no biases but its own.

    Parameters
    ----------
    shape : (height, width, channels) of a sample.
    filters : filters of each convolution.
    classes : number of logits.
    """
    import keras

    x = inputs = keras.Input(shape)
    for count in filters:
        x = keras.layers.Conv2D(count, 3, padding="same", activation="relu", use_bias=False)(x)
    return keras.Model(inputs, keras.layers.Dense(classes)(keras.layers.GlobalAveragePooling2D()(x)))


def six_convolutions() -> Any:
    """Return six convolutions of 320 filters on 8x8 images of as many channels."""
    return convolutions((8, 8, 320), (320,) * 6, 10)


NETWORKS = {
    "paper-a": BenchNetwork("paper A's CIFAR net", paper_a, 32, 200),
    "vgg11": BenchNetwork("VGG-11", vgg11, 32, 128),
    "resnet18": BenchNetwork("ResNet-18", resnet18, 32, 128),
    "volume": BenchNetwork("3-D ResNet-10", volume, 16, 32),
    "alexnet": BenchNetwork("AlexNet-like", alexnet, 64, 128),
    "resattnet18": BenchNetwork("3D-ResAttNet-18, 48x48x48", resattnet18, 8, 16),
    "resattnet-small": BenchNetwork("3D-ResAttNet of two blocks, 32x32x32", resattnet_small, 8, 16),
    "resattnet34": BenchNetwork("3D-ResAttNet-34, 48x48x48", resattnet34, 8, 16),
    "vgg8": BenchNetwork("VGG-8", vgg8, 64, 128),
    "six-convolutions": BenchNetwork("six convolutions of 320 filters at 8x8", six_convolutions, 32, 128),
    "resnet50": BenchNetwork("residual net of 50 convolutions", resnet50, 32, 128),
}
FIVE = ("paper-a", "vgg11", "resnet18", "volume", "alexnet")
