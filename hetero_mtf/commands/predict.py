"""`hetero-mtf predict`: outputs of a trained model for given samples or scans."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import click

from hetero_mtf.commands.options import shared
from hetero_mtf.commands.options.model import model_options
from hetero_mtf.commands.options.requests import PredictRequest
from hetero_mtf.commands.options.volume_options import POSITIVE, SIZES, ClassType, DataName, VolumeOptions, reading_options
from hetero_mtf.errors import DataError
from hetero_mtf.file_kind import ARRAYS, file_kind, in_place_of

NAMES = ("x", "x_test")
REMEDY = "write it again with numpy.savez(file, x=...)"


@click.command()
@model_options(required=False, stored=True)
@click.option("--input", "source", metavar="npz:FILE", help="An .npz file with the samples as x or x_test, or by input.")
@click.option(
    "--data", type=DataName(), metavar="nifti:TABLE", help="Instead of --input: a table of scans, as for train; labels are not needed."
)
@click.option("--checkpoint", required=True, metavar="FILE", help="What hetero-mtf train --save wrote.")
@shared.cluster_option
@click.option("--plan", metavar="FILE", help="The plan to compute by.  [default: the cluster's first device alone]")
@click.option("--batch-size", type=click.IntRange(1), help=f"Batch size, samples.  [default: the plan's, or {SIZES}]")
@click.option("-o", "--output", metavar="FILE", help="What to write.  [default: predictions.npz, or predictions.tsv of volumes]")
@click.option("--positive", type=ClassType(), metavar="CLASS", help=POSITIVE)
@click.option("--grad-cam", metavar="DIR", help="Volumes: draw what the network looked at, as NIfTI on each scan's grid and as PNG.")
@click.option("--grad-cam-layer", metavar="NAME", help="The layer to look at.  [default: the last on the last convolution's grid]")
@click.option(
    "--grad-cam-class",
    type=ClassType(),
    metavar="CLASS",
    multiple=True,
    help="The class to draw; may be repeated.  [default: the predicted one]",
)
@click.option("--participant", metavar="ID", multiple=True, help="Whose scans to draw; may be repeated.  [default: all]")
@reading_options
def command(**options: Any) -> None:
    """Compute the outputs of a trained model, as they leave its last layer; of volumes, the probabilities of the classes.

    Of volumes (--data nifti:TABLE) the model, the classes and the preprocessing are those that are stored with the checkpoint. The
    table that is written has a line a scan; where the truth is known, the scores over the scans that were not trained on are printed.
    """
    request = PredictRequest(volumes=VolumeOptions.taken(options), **options)
    from hetero_mtf.commands.command_files import predict_files
    from hetero_mtf.commands.process.files import check_files
    from hetero_mtf.commands.process.start_line import print_start_line

    check_files(predict_files(request))
    print_start_line(request.cluster)
    if request.data is None:
        _predict_arrays(request)
        return
    from hetero_mtf.commands.mri.predict_scans import predict_volumes

    predict_volumes(request)


def _predict_arrays(request: PredictRequest) -> None:
    from hetero_mtf.commands.process.output_file import save_arrays

    path = check_source(request.source or "")
    from hetero_mtf.commands.workload.model_file import load_model
    from hetero_mtf.commands.workload.restored_trainer import read_state, restored
    from hetero_mtf.commands.workload.run_notes import read_notes
    from hetero_mtf.keras_reading.live_wiring_reader import read_wiring

    state = read_state(request.checkpoint)
    precision = request.precision or read_notes(state.notes, request.checkpoint).precision
    network = load_model(request.model or "", shared.arguments(request.model_arguments), precision)
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


def check_source(source: str) -> pathlib.Path:
    """Return the path behind "npz:".

    Parameters
    ----------
    source : "npz:FILE".

    Raises
    ------
    DataError
        If it is not of this form, or there is no such file.
    """
    kind, _, place = source.partition(":")
    if kind != "npz" or not place:
        raise DataError(f"--input is {source!r}", "write npz:FILE")
    path = pathlib.Path(place)
    if not path.exists():
        raise DataError(f"{path} does not exist", "check the path behind npz:")
    return path


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
    import numpy as np

    from hetero_mtf.data.array import as_numbers
    from hetero_mtf.training.array_archive import DAMAGED

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
