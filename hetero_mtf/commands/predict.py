"""`hetero-mtf predict`: outputs of a trained model for given samples."""

from __future__ import annotations

import pathlib
import zipfile
import zlib
from collections.abc import Sequence
from typing import Any

import click

from hetero_mtf.commands import options as shared
from hetero_mtf.errors import DataError

NAMES = ("x", "x_test")
REMEDY = "write it again with numpy.savez(file, x=...)"


@click.command()
@shared.model_options()
@click.option("--input", "source", required=True, metavar="npz:FILE", help="An .npz file with the samples as x or x_test, or by input.")
@click.option("--checkpoint", required=True, metavar="FILE", help="What hetero-mtf train --save wrote.")
@shared.cluster_option
@click.option("--plan", metavar="FILE", help="The plan to compute by.  [default: the cluster's first device alone]")
@click.option("--batch-size", type=click.IntRange(1), help=f"Samples a batch.  [default: the plan's, or {shared.BATCH_SIZE}]")
@click.option("-o", "--output", default="predictions.npz", metavar="FILE", help="The .npz file to write: y, or by output.")
def command(
    model: str,
    model_arguments: tuple[tuple[str, Any], ...],
    dtype: str,
    source: str,
    checkpoint: str,
    cluster: str,
    plan: str | None,
    batch_size: int | None,
    output: str,
) -> None:
    """Compute the outputs of a trained model, as they leave its last layer."""
    from hetero_mtf.commands.target import check_target, save_arrays

    check_target(output)
    path = check_source(source)
    from hetero_mtf.commands.model_file import load_model
    from hetero_mtf.commands.restored import restored
    from hetero_mtf.graph.reader import read_wiring

    network = load_model(model, shared.arguments(model_arguments), dtype)
    wiring = read_wiring(network)
    inputs, outputs = wiring.input_structure, wiring.output_structure
    samples = read_samples(path) if inputs.count == 1 else {name: read_samples(path, (name,)) for name in inputs.names}
    with restored(network, checkpoint, cluster, plan, batch_size, "mse") as trainer:
        found = trainer.predict(inputs.pack([samples]) if inputs.count == 1 else samples, batch_size=batch_size)
    names = ("y",) if outputs.count == 1 else outputs.names
    if len(set(names)) < len(names):  # an output that is given twice
        names = tuple(f"y{number}" for number in range(len(names)))
    arrays = dict(zip(names, outputs.flatten(found, "y")))
    save_arrays(output, arrays)
    click.echo(f"{output}: {', '.join(f'{name} of shape {array.shape}' for name, array in arrays.items())}")


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
        raise DataError(f"--input is {source!r}; write npz:FILE")
    path = pathlib.Path(place)
    if not path.exists():
        raise DataError(f"{path} does not exist; check the path behind npz:")
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

    try:
        with np.load(path, allow_pickle=False) as archive:
            there = list(getattr(archive, "files", ()))
            name = next((name for name in names if name in there), None)
            array = None if name is None else archive[name]
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError, AttributeError, TypeError) as fault:
        said = " ".join(str(fault).split())
        raise DataError(f"{path} is not a complete .npz file of plain numbers ({said}); {REMEDY}") from fault
    if array is None:
        wanted = f"neither {' nor '.join(names)}" if len(names) > 1 else f"no {names[0]}, which is an input of the model"
        raise DataError(f"{path} has {wanted}: found {', '.join(there) or 'no array'}; {REMEDY}")
    return as_numbers(array, f"{name} in {path}")
