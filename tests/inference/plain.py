"""Sliding windows by Keras alone, window by window, with weights in float64."""

import keras
import numpy as np


def put_together(model, x, laid):
    """Return the outputs of a model for volumes, packed as its outputs.

    Parameters
    ----------
    x : (samples, *extents, channels).
    laid : the windows.
    """
    extents = x.shape[1:-1]
    importance = laid.importance(laid.window(extents), "float64")
    total = np.zeros((*extents, 1))
    for place in laid.places(extents):
        total[place.of_volume] += importance[place.of_window]

    def of_sample(number):
        sums = None
        for place in laid.places(extents):
            given = keras.tree.map_structure(lambda y: np.asarray(y)[0] * importance, model(laid.cut(x, number, place)[np.newaxis]))
            if sums is None:
                sums = keras.tree.map_structure(lambda y: np.zeros((*extents, y.shape[-1])), given)
            for whole, part in zip(keras.tree.flatten(sums), keras.tree.flatten(given)):
                whole[place.of_volume] += part[place.of_window]
        return keras.tree.map_structure(lambda y: y / total, sums)

    return keras.tree.map_structure(lambda *each: np.stack(each), *map(of_sample, range(len(x))))
