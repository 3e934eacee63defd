"""`hetero-mtf predict`: outputs of a trained model for given samples."""

from __future__ import annotations

import pathlib
import zipfile
import zlib
from typing import Any

import click

from hetero_mtf.commands import options as shared
from hetero_mtf.errors import DataError

NAMES = ("x", "x_test")
REMEDY = "write it again with numpy.savez(file, x=...)"


@click.command()
@shared.model_options()
@click.option("--input", "source", required=True, metavar="npz:FILE", help="An .npz file with the samples as x, or else as x_test.")
@click.option("--checkpoint", required=True, metavar="FILE", help="What hetero-mtf train --save wrote.")
@shared.cluster_option
@click.option("--plan", metavar="FILE", help="The plan to compute by.  [default: the cluster's first device alone]")
@click.option("--batch-size", type=click.IntRange(1), help=f"Samples a batch.  [default: the plan's, or {shared.BATCH_SIZE}]")
@click.option("-o", "--output", default="predictions.npz", metavar="FILE", help="The .npz file to write, with the outputs as y.")
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
    samples = read_samples(source)
    from hetero_mtf.commands.model_file import load_model
    from hetero_mtf.commands.restored import restored

    network = load_model(model, shared.arguments(model_arguments), dtype)
    with restored(network, checkpoint, cluster, plan, batch_size, "mse") as trainer:
        found = trainer.predict(samples, batch_size=batch_size)
    save_arrays(output, {"y": found})
    click.echo(f"{output}: y of shape {found.shape}")


def read_samples(source: str) -> Any:
    """Return the samples in an .npz file.

    Parameters
    ----------
    source : "npz:FILE"; its array x, or else x_test, is taken.

    Returns
    -------
    (samples, ...) array of numbers.

    Raises
    ------
    DataError
        If it is not of this form, or the file is missing, truncated or lacks the array.
    """
    import numpy as np

    from hetero_mtf.data.array import as_numbers

    kind, _, place = source.partition(":")
    if kind != "npz" or not place:
        raise DataError(f"--input is {source!r}; write npz:FILE")
    path = pathlib.Path(place)
    try:
        with np.load(path, allow_pickle=False) as archive:
            there = list(getattr(archive, "files", ()))
            name = next((name for name in NAMES if name in there), None)
            array = None if name is None else archive[name]
    except FileNotFoundError as fault:
        raise DataError(f"{path} does not exist; check the path behind npz:") from fault
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError, AttributeError, TypeError) as fault:
        said = " ".join(str(fault).split())
        raise DataError(f"{path} is not a complete .npz file of plain numbers ({said}); {REMEDY}") from fault
    if array is None:
        raise DataError(f"{path} has neither x nor x_test: found {', '.join(there) or 'no array'}; {REMEDY}")
    return as_numbers(array, f"{name} in {path}")
