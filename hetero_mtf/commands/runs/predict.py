"""What `hetero-mtf predict` does: outputs of arrays of samples, or of scans; imported after TensorFlow is."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import click
import numpy as np

from hetero_mtf.commands.mri.predict_scans import predict_volumes
from hetero_mtf.commands.options.requests import PredictRequest, check_source
from hetero_mtf.commands.options.shared import arguments
from hetero_mtf.commands.workload.model_file import load_model
from hetero_mtf.commands.workload.restored_trainer import restored
from hetero_mtf.commands.workload.run_notes import read_notes
from hetero_mtf.data.array import as_numbers
from hetero_mtf.errors import DataError
from hetero_mtf.file_kind import ARRAYS, file_kind, in_place_of
from hetero_mtf.json_file import replace_file
from hetero_mtf.keras_reading.live_wiring_reader import read_wiring
from hetero_mtf.npz_file import write_npz
from hetero_mtf.training.array_archive import DAMAGED
from hetero_mtf.training.checkpoint import load_state

NAMES = ("x", "x_test")
REMEDY = "write it again with numpy.savez(file, x=...)"


def predict(request: PredictRequest) -> None:
    """Write the outputs of a trained network.

    Parameters
    ----------
    request : the options of the command.

    Raises
    ------
    HeteroError
        If something cannot be read, written, or does not fit.
    """
    if request.data is None:
        _predict_arrays(request)
    else:
        predict_volumes(request)


def _predict_arrays(request: PredictRequest) -> None:
    path = check_source(request.source or "")
    state = load_state(request.checkpoint)
    precision = request.precision or read_notes(state.notes, request.checkpoint).precision
    network = load_model(request.model or "", arguments(request.model_arguments), precision)
    wiring = read_wiring(network)
    inputs, outputs = wiring.input_structure, wiring.output_structure
    samples = read_samples(path) if inputs.count == 1 else {name: read_samples(path, (name,)) for name in inputs.names}
    with restored(request, network, state, request.batch_size, "mse") as trainer:
        predicted = trainer.predict(inputs.pack([samples]) if inputs.count == 1 else samples, batch_size=request.batch_size)
    names = ("y",) if outputs.count == 1 else outputs.names
    if len(set(names)) < len(names):  # an output that is given twice
        names = tuple(f"y{number}" for number in range(len(names)))
    arrays = dict(zip(names, outputs.flatten(predicted, "y")))
    save_arrays(request.target, arrays)
    click.echo(f"{request.target}: {', '.join(f'{name} of shape {array.shape}' for name, array in arrays.items())}")


def read_samples(path: pathlib.Path, names: Sequence[str] = NAMES) -> Any:
    """Return the samples in an .npz file.

    Parameters
    ----------
    path : path of the file.
    names : names of the array; the first that is there is taken.

    Returns
    -------
    (samples, ...) array of numbers.

    Raises
    ------
    DataError
        If the file is truncated or lacks the array.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            there = list(getattr(archive, "files", ()))
            name = next((name for name in names if name in there), None)
            array = None if name is None else archive[name]
    except (OSError, *DAMAGED) as fault:
        said = " ".join(str(fault).split())
        if file_kind(path) not in ("", ARRAYS):
            raise DataError(f"{in_place_of(path, 'an .npz file of plain numbers')}", REMEDY) from fault
        raise DataError(f"{path} is not a complete .npz file of plain numbers ({said})", REMEDY) from fault
    if array is None:
        wanted = f"neither {' nor '.join(names)}" if len(names) > 1 else f"no {names[0]}, which is an input of the model"
        raise DataError(f"{path} has {wanted}: found {', '.join(there) or 'no array'}", REMEDY)
    return as_numbers(array, f"{name} in {path}")


def save_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write arrays to an .npz file in one piece.

    Parameters
    ----------
    path : path of the file to write or replace.
    arrays : name -> array.

    Raises
    ------
    HeteroError
        If it cannot be written.
    """
    with replace_file(path) as file:
        write_npz(file, arrays)
