"""What `hetero-mtf evaluate` does: metrics of arrays, scores of volumes; imported after TensorFlow is."""

from __future__ import annotations

import dataclasses

import click

from hetero_mtf.commands.mri.score_report import ScoreReport, part_report
from hetero_mtf.commands.mri.volume_workload import trained_workload
from hetero_mtf.commands.options.requests import EvaluateRequest
from hetero_mtf.commands.options.volume_options import default_batch_size, is_volumes
from hetero_mtf.commands.workload.data_record import load_stored
from hetero_mtf.commands.workload.restored_trainer import restored
from hetero_mtf.commands.workload.run_notes import read_notes
from hetero_mtf.commands.workload.workload import Workload, load_workload
from hetero_mtf.data.dataset import Dataset
from hetero_mtf.errors import DataError
from hetero_mtf.json_file import write_json
from hetero_mtf.report.scores import Scores
from hetero_mtf.training.checkpoint import State, load_state


def evaluate(request: EvaluateRequest) -> None:
    """Print the metrics or scores of a trained network.

    Parameters
    ----------
    request : the options of the command.

    Raises
    ------
    HeteroError
        If something cannot be read or does not fit.
    """
    if is_volumes(request.data):
        evaluate_volumes(request)
    else:
        _evaluate_arrays(request)


def _evaluate_arrays(request: EvaluateRequest) -> None:
    state = load_state(request.checkpoint)
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
    state = load_state(request.checkpoint)
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
    size = request.batch_size or (default_batch_size(request.data) if request.plan is None else None)
    with restored(request, workload.model, state, size, workload.loss) as trainer:
        return part_report(trainer, workload, request.part, request.positive)
