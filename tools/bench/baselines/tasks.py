"""What this project and other libraries train side by side: five networks, each with its batch, loss and data."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

from tools.bench.comparison.networks import NETWORKS
from tools.bench.comparison.side_by_side import TrainingTask
from tools.bench.today.networks import SegmentationTask, unet3d

UNET = "unet3d"
COMPARED = ("vgg8", "resnet18", "alexnet", "volume", UNET)
TITLES = {**{name: network.title for name, network in NETWORKS.items()}, UNET: "3-D U-Net"}
_UNET_BATCH = 8
CLASSES, VOXELS = "classes", "voxels"


class VoxelTask(SegmentationTask):
    """A model that outputs a map of probabilities, trained by the mean cross-entropy of voxels, a mean of samples unlike Dice."""

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """The optimizer and the loss."""
        import keras

        return {"optimizer": keras.optimizers.SGD(0.001, momentum=0.9), "loss": keras.losses.BinaryCrossentropy()}


def compared_task(network: str) -> TrainingTask:
    """Return what is trained of a network, with its batch.

    Parameters
    ----------
    network : key in `NETWORKS`, or `UNET`.
    """
    if network == UNET:
        return VoxelTask(unet3d(), _UNET_BATCH)
    return TrainingTask(NETWORKS[network].make(), NETWORKS[network].batch)


@dataclasses.dataclass(frozen=True)
class Trained:
    """A network that another library has to train too.

    Parameters
    ----------
    network : its name in `compared_task` and in `torch_networks`.
    weights : its trainable weights, to see that they train the same network.
    shape : of a sample, the channels last.
    classes : channels of the output.
    loss : `CLASSES` for cross-entropy of logits, or `VOXELS` for cross-entropy of a map of probabilities.
    """

    network: str
    weights: int
    shape: Sequence[int]
    classes: int
    loss: str = CLASSES

    @classmethod
    def of(cls, network: str, model: Any) -> Trained:
        """Return the record of a Keras model with one input and one output."""
        weights = sum(math.prod(variable.shape) for variable in model.trainable_variables)
        loss = CLASSES if len(model.output_shape) == 2 else VOXELS
        return cls(network, weights, tuple(model.input_shape[1:]), model.output_shape[-1], loss)
