"""Keras models from the files that `model.save` writes, without running code that such a file names."""

from __future__ import annotations

import json
import pathlib
import zipfile
import zlib
from typing import Any

import keras

from hetero_mtf.commands.options.model import float_type
from hetero_mtf.errors import HeteroError
from hetero_mtf.file_kind import file_kind, in_place_of
from hetero_mtf.keras_reading.operations import layers_in
from hetero_mtf.program.loss_scale import SCALED_POLICY
from hetero_mtf.training.keras_configuration import built_model

_CONFIGURATION, _WEIGHTS = "config.json", "model.weights.h5"
_LARGEST_BYTES = 64 * 2**20  # of a configuration
_REMEDY = "save the model again with model.save"


def load_keras_file(path: str, precision: str | None = None, seed: int = 0) -> Any:
    """Return the model in a file, with its weights.

    Every object that the file names is checked against a table before Keras reads any of it: nothing outside Keras's layers that are
    supported, its initializers and regularizers is imported or called. Losses and optimizers in the file are left out.

    Parameters
    ----------
    path : path of the file.
    precision : name of the dtype policy that must be that of its layers; None takes whatever it is.
    seed : seed of dropout and of what has no weights in the file.

    Raises
    ------
    HeteroError
        If there is no such file, it is damaged, its layers are not supported, or it names classes of its own.
    """
    configuration = configuration_in(path)
    keras.config.set_floatx(float_type(precision))
    keras.utils.set_random_seed(seed)
    model, graph = built_model(configuration, path)
    weighted = (layer for layer in layers_in(model) if layer.weights and not hasattr(layer, "layers"))
    policies = sorted({layer.dtype_policy.name for layer in weighted} or {graph.dtype})
    if precision not in (None, *policies):
        own = ", ".join(policies)
        raise HeteroError(
            f"{path} holds a model in {own} and --precision is {precision}", f"give --precision {policies[0]}, or leave it out"
        )
    if SCALED_POLICY in policies:
        model.dtype_policy = keras.DTypePolicy(SCALED_POLICY)  # which no file holds of a whole model, and by which its loss is scaled
    keras.config.set_floatx(float_type(graph.dtype))
    keras.config.set_dtype_policy(keras.config.floatx())
    try:
        model.load_weights(path)
    except Exception as fault:  # HDF5 raises whatever damaged bytes lead to
        said = " ".join(str(fault).split())[:200]
        raise HeteroError(f"{path} has weights that cannot be read ({type(fault).__name__}: {said})", _REMEDY) from fault
    return model


def configuration_in(path: str) -> Any:
    """Return the configuration in a file, as it is: nothing of it is checked.

    Parameters
    ----------
    path : path of the file.

    Raises
    ------
    HeteroError
        If there is no such file, or it is damaged.
    """
    if not pathlib.Path(path).is_file():
        raise HeteroError(f"there is no model file {path}", "check the path")
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.getinfo(_CONFIGURATION).file_size > _LARGEST_BYTES:
                raise HeteroError(f"{path} has a configuration of more than {_LARGEST_BYTES} bytes", _REMEDY)
            archive.getinfo(_WEIGHTS)
            return json.loads(archive.read(_CONFIGURATION))
    except KeyError as fault:
        raise HeteroError(f"{in_place_of(path, 'a Keras model')}", _REMEDY) from fault
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RecursionError, NotImplementedError, RuntimeError, OSError) as fault:
        if isinstance(fault, HeteroError):
            raise
        what = in_place_of(path, "a Keras model") if file_kind(path) else f"{path} is not a complete Keras model"
        raise HeteroError(f"{what} ({' '.join(str(fault).split())})", _REMEDY) from fault
