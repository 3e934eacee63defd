"""Grad-CAM: where in a volume a trained network finds evidence for a class.

Selvaraju, Cogswell, Das, Vedantam, Parikh, Batra, "Grad-CAM: visual explanations from deep networks via gradient-based localization",
ICCV 2017: the channels of the last convolution are weighted by the mean gradient of the class's score, and what is positive in their sum
is the map. It is as coarse as that convolution's grid, and shows what the network used, not whether that is correct.

Ours: the layer is the last one on the last convolution's grid, so that in a residual network the shortcut and the activation count too;
where a network ends in softmax or sigmoid, the score is the logit, as the probability of a saturated output hardly changes with its
input; the map is spread over the volume cell by cell, linearly between their middles; and a mask, such as of the head, may bound it,
as a network's biases and the edges of a scan light up cells without tissue.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from scipy import ndimage

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.keras_reading.private_names import logits_of

_POOLS = ("Pooling", "UpSampling", "Padding", "Cropping")  # in names of layers whose output is no map of their own


class GradCam:
    """Maps of a Keras model on volumes.

    Parameters
    ----------
    model : keras.Model from (samples, D, H, W, channels) to (samples, classes), or (samples, 1) for the second of two classes.
    activation : what its output has been through: "softmax", "sigmoid", or anything else for scores.
    layer : name of the layer to look at; None takes the last one on the last convolution's grid.

    Attributes
    ----------
    layer : name of the layer.

    Raises
    ------
    UnsupportedError
        If there is no such layer, or its output is no volume.
    """

    def __init__(self, model: Any, activation: str = "", layer: str | None = None) -> None:
        volumes = [candidate for candidate in model.layers if _is_volume(candidate)]
        names = [candidate.name for candidate in volumes]
        if layer is not None and layer not in names:
            raise UnsupportedError(f"{layer!r} is no layer whose output is a volume", f"there are {', '.join(names) or 'none'}")
        self.layer: str = layer or _last(volumes, model.name)
        self._activation = activation
        inputs = model.inputs if len(model.inputs) > 1 else model.inputs[0]  # Keras 3.8 warns of a list of one that is called with one
        self._both = keras.Model(inputs, [model.get_layer(self.layer).output, model.outputs[0]])

    def map(self, x: np.ndarray, number: int, inside: np.ndarray | None = None) -> np.ndarray:
        """Return the evidence for a class in a volume.

        Parameters
        ----------
        x : (D, H, W, channels) array, as the network takes it.
        number : class number.
        inside : (D, H, W) array of bool, outside which the map is 0; None for the whole volume.

        Returns
        -------
        (D, H, W) array of float32, 0 to 1, its largest cell or, inside a mask, voxel 1; 0 everywhere without evidence for the class.
        """
        given = tf.convert_to_tensor(x[None], self._both.inputs[0].dtype)
        with tf.GradientTape() as tape:
            tape.watch(given)  # so that all that follows is recorded, the layer's output too
            maps, outputs = self._both(given, training=False)
            score = self._score(self._unsquashed(outputs)[0], number)
        weights = tf.reduce_mean(tape.gradient(score, maps), axis=(1, 2, 3), keepdims=True)
        heat = np.maximum(tf.reduce_sum(weights * maps, axis=-1)[0].numpy(), 0.0).astype(np.float32)
        if inside is None:
            return spread(_scaled(heat), x.shape[:3])
        return _scaled(np.where(inside, spread(heat, x.shape[:3]), np.float32(0)))

    def _unsquashed(self, outputs: Any) -> Any:
        """Return the logits of softmax or sigmoid, which Keras keeps beside its output for losses."""
        return logits_of(outputs) if self._activation in ("softmax", "sigmoid") else outputs

    def _score(self, scores: Any, number: int) -> Any:
        """Return the score of a class; one output serves two classes."""
        if scores.shape[0] > 1:
            return scores[number]
        return scores[0] if number == 1 else -scores[0]


def _scaled(heat: np.ndarray) -> np.ndarray:
    """Return a map that is not negative with 1 as its largest value, or as it is where it is 0 everywhere."""
    largest = float(heat.max())
    return heat / largest if largest > 0 else heat


def spread(cells: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return a coarse volume on a finer grid that covers the same space.

    Parameters
    ----------
    cells : (d, h, w) array; each cell covers as much of the result as any other.
    shape : (3,) voxels of the result.

    Returns
    -------
    (D, H, W) array of the cells' type, linear between the middles of cells, and beyond the outermost as these.

    Examples
    --------
    >>> spread(np.arange(2.0).reshape(2, 1, 1), (4, 1, 1)).ravel().tolist()
    [0.0, 0.25, 0.75, 1.0]
    """
    positions = [(np.arange(fine) + 0.5) * coarse / fine - 0.5 for fine, coarse in zip(shape, cells.shape)]
    resampled: np.ndarray = ndimage.map_coordinates(cells, np.meshgrid(*positions, indexing="ij"), order=1, mode="nearest")
    return resampled


def _is_volume(layer: Any) -> bool:
    output = getattr(layer, "output", None)
    return output is not None and not isinstance(output, (list, tuple, dict)) and len(output.shape) == 5


def _last(volumes: list[Any], model: str) -> str:
    """Return the name of the last layer on the grid of the last convolution."""
    grids = [volume.output.shape[1:4] for volume in volumes if "Conv" in type(volume).__name__]
    if not grids:
        raise UnsupportedError(f"{model} has no convolution of volumes whose maps could be drawn", "name a layer with --grad-cam-layer")
    alike = [volume.name for volume in volumes if volume.output.shape[1:4] == grids[-1] and not _pools(volume)]
    return str(alike[-1])


def _pools(layer: Any) -> bool:
    return any(word in type(layer).__name__ for word in _POOLS)
