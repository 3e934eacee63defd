"""`hetero-mtf evaluate`: metrics of a checkpoint on samples it was not trained on."""

from __future__ import annotations

from typing import Any

import click

from hetero_mtf.commands.command_files import evaluate_files
from hetero_mtf.commands.options import shared
from hetero_mtf.commands.options.loss_options import objective_options
from hetero_mtf.commands.options.model import model_options
from hetero_mtf.commands.options.requests import EvaluateRequest
from hetero_mtf.commands.options.volume_options import (
    POSITIVE,
    SIZES,
    ClassType,
    VolumeOptions,
    data_option,
    is_volumes,
    reading_options,
    table_of,
)
from hetero_mtf.commands.process.files import check_files
from hetero_mtf.commands.process.quiet import load_tensorflow
from hetero_mtf.commands.process.start_line import print_start_line

PARTS = ("train", "validation", "test")


@click.command()
@model_options(required=False, stored=True)
@data_option
@click.option("--checkpoint", required=True, metavar="FILE", help="What hetero-mtf train --save wrote.")
@shared.cluster_option
@click.option("--plan", metavar="FILE", help="The plan to compute by.  [default: the cluster's first device alone]")
@click.option("--batch-size", type=click.IntRange(1), help=f"Batch size, samples.  [default: the plan's, or {SIZES}]")
@click.option("--part", type=click.Choice(PARTS), default="test", help="The samples to look at.")
@objective_options(stored=True)
@click.option("--positive", type=ClassType(), metavar="CLASS", help=POSITIVE)
@click.option("--json", metavar="FILE", help="Volumes: where to write the scores.")
@click.option("--plot", metavar="FILE.png", help="Volumes: where to draw the calibration, ROC and precision-recall curves.")
@click.option("--html", metavar="FILE", help="Volumes: where to write a page of all scores with the curves.")
@reading_options
def command(**options: Any) -> None:
    """Print the test metrics of a trained model.

    Of volumes (--data nifti:TABLE): accuracy, balanced accuracy, sensitivity, specificity, precision, F1 and the areas under the ROC and
    precision-recall curves, with confidence intervals. They are over the test part of the split that is stored with the checkpoint, by
    session and by site too. The model, the classes and the preprocessing are stored as well, so --model need not be given.
    """
    request = EvaluateRequest(volumes=VolumeOptions.taken(options), **options)
    check_files(evaluate_files(request))
    print_start_line(request.cluster)
    if is_volumes(request.data):
        table_of(request.data)  # a missing table is refused before TensorFlow is loaded
    load_tensorflow()
    from hetero_mtf.commands.runs.evaluate import evaluate  # needs TensorFlow, which is loaded quietly by now

    evaluate(request)
