"""`hetero-mtf evaluate`: metrics of a checkpoint on samples it was not trained on."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

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
    default_batch_size,
    is_volumes,
    reading_options,
)
from hetero_mtf.errors import DataError

if TYPE_CHECKING:
    from hetero_mtf.commands.mri.score_report import ScoreReport
    from hetero_mtf.commands.workload.workload import Workload
    from hetero_mtf.report.scores import Scores
    from hetero_mtf.training.checkpoint import State

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
    precision-recall curves, with confidence intervals, over the test part of the split that is stored with the checkpoint; by session
    and by site too, where the table has them. The model, the classes and the preprocessing are stored as well, so --model need not be
    given.
    """
    request = EvaluateRequest(volumes=VolumeOptions.taken(options), **options)
    from hetero_mtf.commands.command_files import evaluate_files
    from hetero_mtf.commands.process.files import check_files
    from hetero_mtf.commands.process.start_line import print_start_line

    check_files(evaluate_files(request))
    print_start_line(request.cluster)
    if is_volumes(request.data):
        evaluate_volumes(request)
        return
    from hetero_mtf.commands.workload.restored_trainer import read_state, restored
    from hetero_mtf.commands.workload.run_notes import read_notes
    from hetero_mtf.commands.workload.workload import load_workload
    from hetero_mtf.data.dataset import Dataset

    state = read_state(request.checkpoint)
    notes = read_notes(state.notes, request.checkpoint)
    workload = load_workload(request.model or "", request.model_arguments, request.precision or notes.precision, request.data)
    if notes.validation_split is not None and isinstance(workload.data, Dataset):
        workload = dataclasses.replace(workload, data=workload.data.with_validation(notes.validation_split))
    if request.part not in workload.data.counts:
        wrong = f"{workload.data.name} has no samples to validate on, and {request.checkpoint} was trained without --validation-split"
        raise DataError(wrong, "give --part train or --part test")
    workload = workload.choosing(request.objective_choice.over(notes.choice(request.checkpoint)))
    click.echo(workload.loss_text)
    with restored(request, workload.model, state, request.batch_size, workload.loss, workload.metrics) as trainer:
        with workload.data.testing(request.batch_size or trainer.plan.batch_size, request.part) as source:
            metrics = trainer.evaluate(source)
    click.echo(workload.metrics_text(metrics, request.part))


def evaluate_volumes(request: EvaluateRequest) -> Scores:
    """Print and return the scores of a trained network over a part of the volumes it was trained with.

    Parameters
    ----------
    request : the options of the command.

    Raises
    ------
    HeteroError
        If something cannot be read or does not fit.
    """
    from hetero_mtf.commands.mri.volume_workload import table_of, trained_workload
    from hetero_mtf.commands.workload.data_record import load_stored
    from hetero_mtf.commands.workload.restored_trainer import read_state
    from hetero_mtf.json_file import write_json

    table_of(request.data)  # a missing table is refused before the checkpoint is read
    state = read_state(request.checkpoint)
    if request.positive is not None:
        load_stored(request.checkpoint, state).check_classes((request.positive,), "--positive")
    workload = trained_workload(request.origin, request.data, request.volumes, request.checkpoint, state)
    for line in workload.data.lines:
        click.echo(line)
    report = _report(request, workload, state)
    click.echo(f"\n{report.text()}")
    if request.json is not None:
        of = {"kind": "scores", "version": 1, "checkpoint": request.checkpoint, "part": request.part}
        write_json(request.json, {**of, **report.document()})
        click.echo(f"saved {request.json}")
    report.draw(request.plot, request.html, "evaluate")
    return report.scores


def _report(request: EvaluateRequest, workload: Workload, state: State) -> ScoreReport:
    from hetero_mtf.commands.mri.score_report import part_report
    from hetero_mtf.commands.workload.restored_trainer import restored

    size = request.batch_size or (default_batch_size(request.data) if request.plan is None else None)
    with restored(request, workload.model, state, size, workload.loss) as trainer:
        return part_report(trainer, workload, request.part, request.positive)
