"""Training of all folds: one plan, a network with the same first weights for each fold, and the scores of all together."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable
from typing import Any

import click

from hetero_mtf.commands.mri.fold_files import FoldFiles
from hetero_mtf.commands.mri.fold_predictions import FoldPredictions, load_fold, pooled
from hetero_mtf.commands.mri.fold_record import FoldRecord, load_record, settings_of
from hetero_mtf.commands.mri.fold_scores import report_folds, save_scores
from hetero_mtf.commands.mri.predictions import predicted
from hetero_mtf.commands.options.requests import TrainRequest
from hetero_mtf.commands.process.complete_state import newest_complete
from hetero_mtf.commands.process.interruption import StopRequest
from hetero_mtf.commands.workload.first_plan import PlanRequest, Prepared
from hetero_mtf.commands.workload.run_notes import RunNotes, read_notes
from hetero_mtf.commands.workload.run_settings import ChosenRun
from hetero_mtf.commands.workload.workload import Workload
from hetero_mtf.data.volumes.folded import FoldedVolumes
from hetero_mtf.data.volumes.volume_data import VolumeData
from hetero_mtf.errors import HeteroError
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.report.measured import Measured
from hetero_mtf.training.checkpoint import load_state

Tested = Callable[[Any], None]
Train = Callable[..., tuple[dict[str, float], Measured | None, Plan]]


def planned_before(request: TrainRequest, asked: PlanRequest) -> PlanRequest:
    """Return where the plan of all folds comes from: where some are finished, the one that they were trained by.

    Parameters
    ----------
    request : the options of the command.
    asked : where it comes from at first.

    Raises
    ------
    HeteroError
        If the record of what is finished is damaged.
    """
    record = load_record(FoldFiles.of(request).record) if request.volumes.all_folds and request.plan is None else None
    if record is None or not record.plan or not (record.begun or record.finished):
        return asked
    plan = FoldFiles.of(request).record.parent / record.plan
    if not plan.is_file() or Plan.load(plan).digest != record.plan_digest:
        click.echo(f"the plan of the finished folds is no longer in {plan}, and a plan is made again")
        return asked
    return dataclasses.replace(asked, plan_file=str(plan), profile_file=None)


def train_folds(
    request: TrainRequest, run: ChosenRun, prepared: Prepared, live: Any, stop: StopRequest, train: Train
) -> tuple[dict[str, float], Measured | None, Plan]:
    """Train and test on each fold in turn, save what each gives, and print the scores of each and of all together.

    Every fold begins with the weights that the network has when this is called, as if the model had been made again from the seed.
    Folds that were finished before, by the same command with the same settings, are not repeated.

    Parameters
    ----------
    request : the options of the command.
    run : what is trained with: the network with its first weights, and data in folds.
    prepared : the plan, by which every fold is trained.
    live : the cluster.
    stop : a request to stop.
    train : trains one fold: of `request`, `run`, `prepared`, `live`, `stop`, what is called with the trained trainer, and whether
        the plan is printed.

    Returns
    -------
    No metrics, as there are those of each fold, the measured times of the first fold that was trained now, and the plan.

    Raises
    ------
    HeteroError
        If something was begun with other settings, or cannot be written.
    """
    workload, data, files = run.workload, run.workload.data, FoldFiles.of(request)
    assert isinstance(data, FoldedVolumes)
    record, first_weights = _begin(request, workload, prepared, files), workload.model.get_weights()
    times: list[Measured] = []
    click.echo(f"{len(data.splits)} folds by one plan; each begins with the weights that the model has with --seed {request.seed}")
    for fold in range(1, len(data.splits) + 1):
        if fold in record.finished and files.fold_predictions(fold).exists():
            click.echo(f"\nfold {fold} of {len(data.splits)} is finished: {files.fold_predictions(fold)}")
            continue
        own_request, record = _begin_fold(request, files, record, fold)
        workload.model.set_weights(first_weights)
        own = _of_fold(workload, fold)
        click.echo(f"\nfold {fold} of {len(data.splits)}")
        begins = f"goes on with fold {fold}" if request.save is not None else f"begins fold {fold} again"
        stop.goes_on = f"the same command again {begins}"
        own_run = dataclasses.replace(run, workload=own, notes=_notes(run, own_request))
        _, measured, _ = train(own_request, own_run, prepared, live, stop, _saving(own, files, fold), not times)
        record = record.finish(fold)
        record.save(files.record)
        times += [] if measured is None else [measured]
    click.echo("")
    parts = [_loaded(data, files, fold) for fold in range(1, len(data.splits) + 1)]
    report_folds(files, record, parts, pooled(data.participants, parts))
    return {}, times[0] if times else None, prepared.plan


def _begin(request: TrainRequest, workload: Workload, prepared: Prepared, files: FoldFiles) -> FoldRecord:
    """Return how far the training has come, the record of a new one written."""
    data = workload.data
    assert isinstance(data, FoldedVolumes)
    settings, record = settings_of(request, workload, prepared.plan.batch_size), load_record(files.record)
    if record is not None and (record.begun or record.finished):
        record.check(settings, files.record)
        for fold in record.finished:
            if files.fold_predictions(fold).exists():
                _loaded(data, files, fold)  # refuses a table that was changed before the other folds are trained
        ended = ", ".join(map(str, record.finished)) or "none"
        click.echo(f"going on with {files.record}: finished folds {ended} of {record.folds}; to begin again, remove it")
        if record.plan_digest != prepared.plan.digest:
            click.echo("the other folds are trained by another plan: if both are synchronous, numbers differ by rounding only")
        return record
    plan_file = prepared.plan_file or request.plan or ""
    plan = os.path.relpath(plan_file, files.record.parent) if plan_file else ""
    new = FoldRecord(len(data.splits), settings, plan, prepared.plan.digest)
    new.save(files.record)
    return new


def _begin_fold(request: TrainRequest, files: FoldFiles, record: FoldRecord, fold: int) -> tuple[TrainRequest, FoldRecord]:
    """Return the options of a fold's training, which goes on from its state if it was interrupted, and the record, which is written."""
    state = files.state(fold)
    goes_on = state is not None and pathlib.Path(state).exists() and fold in (*record.begun, *record.finished)
    if state is not None and not goes_on:
        try:
            pathlib.Path(state).unlink(missing_ok=True)  # of another training: after an interruption it would be taken for this one's
        except OSError as fault:
            raise HeteroError(f"cannot replace {state}: {fault.strerror or fault}", "choose another place with --save") from fault
    record = record.begin(fold)
    record.save(files.record)
    measured = request.measured_file
    resumed = newest_complete(str(state))[0] if goes_on else None
    named: dict[str, Any] = {"save": state, "output": files.model(fold), "measured": measured, "resume": resumed}
    logs = None if request.callbacks.log_dir is None else os.path.join(request.callbacks.log_dir, f"fold{fold}")
    callbacks = dataclasses.replace(request.callbacks, log_dir=logs)
    single = dataclasses.replace(request.volumes, fold=fold)  # what has a number may go on from a state
    return dataclasses.replace(request, **named, volumes=single, callbacks=callbacks), record


def _notes(run: ChosenRun, request: TrainRequest) -> RunNotes:
    """Return what is stored with the states of a fold: where it goes on, with the metric that its state watched so far."""
    if request.resume is None:
        return run.notes
    return dataclasses.replace(run.notes, watched=read_notes(load_state(request.resume).notes, request.resume).watched)


def _of_fold(workload: Workload, fold: int) -> Workload:
    data = workload.data
    assert isinstance(data, FoldedVolumes) and workload.stored is not None
    own = data.fold(fold)
    return dataclasses.replace(workload, data=own, stored=dataclasses.replace(workload.stored, data=own.record))


def _saving(workload: Workload, files: FoldFiles, fold: int) -> Tested:
    """Return what predicts the scans that a fold tests on, and saves predictions and scores."""
    data = workload.data
    assert isinstance(data, VolumeData)

    def save(trainer: Any) -> None:
        people = data.part("test")
        predictions = predicted(trainer, workload.graph, people, data.cache, data.workers, ("test",) * len(people.scans))
        part = FoldPredictions(predictions, (fold,) * len(people.scans))
        part.save(files.fold_predictions(fold))
        save_scores(files, part, fold)
        click.echo(f"saved {files.fold_predictions(fold)} and {files.fold_scores(fold)}")

    return save


def _loaded(data: FoldedVolumes, files: FoldFiles, fold: int) -> FoldPredictions:
    return load_fold(files.fold_predictions(fold), data.fold(fold).part("test"), fold)
