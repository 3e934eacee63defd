"""`hetero-mtf predict`: outputs of a trained model for given samples or scans."""

from __future__ import annotations

from typing import Any

import click

from hetero_mtf.commands.command_files import predict_files
from hetero_mtf.commands.options import shared
from hetero_mtf.commands.options.model import model_options
from hetero_mtf.commands.options.requests import PredictRequest, check_source
from hetero_mtf.commands.options.volume_options import POSITIVE, SIZES, ClassType, DataName, VolumeOptions, reading_options, table_of
from hetero_mtf.commands.process.files import check_files
from hetero_mtf.commands.process.quiet import load_tensorflow
from hetero_mtf.commands.process.start_line import print_start_line


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
    check_files(predict_files(request))
    print_start_line(request.cluster)
    if request.data is None:
        check_source(request.source or "")
    else:
        table_of(request.data)
    load_tensorflow()  # after the checks of files, which fail sooner
    from hetero_mtf.commands.runs.predict import predict  # needs TensorFlow, which is loaded quietly by now

    predict(request)
