"""What `hetero-mtf train` does: the model, the plan, the training, the comparison; imported after TensorFlow is."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import click

from hetero_mtf.commands.mri.fold_training import planned_before, train_folds
from hetero_mtf.commands.mri.score_report import print_scores
from hetero_mtf.commands.mri.volume_workload import workload_to_train
from hetero_mtf.commands.options.config_record import save_config, used_options
from hetero_mtf.commands.options.requests import TrainRequest
from hetero_mtf.commands.options.volume_options import default_batch_size, is_volumes, table_of
from hetero_mtf.commands.output.plan_report import verdict_text
from hetero_mtf.commands.process.complete_state import newest_complete
from hetero_mtf.commands.process.files import identity
from hetero_mtf.commands.process.interruption import ANSWER_LIMIT_S, StopRequest
from hetero_mtf.commands.process.run_files import beside
from hetero_mtf.commands.runs.begun_trainer import repeated_plans
from hetero_mtf.commands.runs.network_training import train_network
from hetero_mtf.commands.workload.chosen_optimizer import optimizer_of
from hetero_mtf.commands.workload.comparison import compare
from hetero_mtf.commands.workload.data_record import load_stored
from hetero_mtf.commands.workload.first_plan import PlanRequest, Prepared, prepare
from hetero_mtf.commands.workload.fit import check_watched
from hetero_mtf.commands.workload.opened_cluster import open_cluster
from hetero_mtf.commands.workload.refining import refine_limit_s, refined
from hetero_mtf.commands.workload.run_notes import RunNotes, read_notes
from hetero_mtf.commands.workload.run_settings import ChosenRun, chosen_run
from hetero_mtf.commands.workload.workload import Workload, load_network, load_workload, with_model
from hetero_mtf.data.labelled import LabelledData
from hetero_mtf.planning.names import FIRST, STALE_SCHEDULES
from hetero_mtf.runtime.cluster import Cluster
from hetero_mtf.training.checkpoint import load_state


def run_training(request: TrainRequest, data: LabelledData | None, started: Cluster | None = None) -> None:
    """Train a network, print its test metrics, and save what is to be saved.

    Parameters
    ----------
    request : the options of the command.
    data : the data, where they were read before; None reads them.
    started : the cluster, where it was opened before; None opens it.

    Raises
    ------
    HeteroError
        If something cannot be read or written, or does not fit.
    """
    before = _before(request)
    if request.repeated is not None:
        repeated_plans(request.repeated)  # raises where there are none, before the work
    request = dataclasses.replace(request, resume=before.path, seed=before.seed, precision=request.precision or before.notes.precision)
    workload = _workload(request, data)
    run = chosen_run(request, workload, before.notes)
    workload, choice = run.workload, run.optimizer
    check_watched(request, workload)
    for line in (*workload.data.lines, *run.lines):
        click.echo(line)
    with StopRequest() as stop, (started or open_cluster(request.cluster)) as live:
        stop.unresponsive = functools.partial(live.unresponsive, ANSWER_LIMIT_S)
        planned, train = _training(request, run)
        prepared = None
        if not request.plans_by_trainer:
            prepared = prepare(planned, live, workload.model, workload.graph, choice)
            prepared = _saved(request, _refined(request, run, prepared, live))
        _save_options(request, prepared)
        metrics, measured, last_plan = train(request, run, prepared, live, stop)
        compared = prepared or Prepared(last_plan, None)
        comparison = compare(workload, compared, live, choice, metrics) if request.compare else None
    times = comparison.times if comparison is not None else None
    report = [verdict_text(compared.plan, compared.profile, measured, times), comparison.text if comparison is not None else ""]
    for text in filter(None, report):
        click.echo(f"\n{text}")
    if measured is not None and request.measured_file is not None:
        measured.beside(times).save(request.measured_file)
        click.echo(f"saved {request.measured_file}")


class _Before(NamedTuple):
    """What a training goes on from."""

    path: str | None
    seed: int
    notes: RunNotes


def _before(request: TrainRequest) -> _Before:
    """Return the state to go on from, its seed and notes; refuses a file that cannot be read, before the work.

    Where it is the one that the training saves to, an older complete one beside it does for a damaged one.
    """
    if request.resume is None:
        return _Before(None, request.seed, RunNotes())
    is_own = request.save is not None and identity(request.resume) == identity(request.save)
    path, state = newest_complete(request.resume) if is_own else (request.resume, load_state(request.resume))
    return _Before(path, state.seed, read_notes(state.notes, path))


def _plan_request(request: TrainRequest) -> PlanRequest:
    default = default_batch_size(request.data) if request.plan is None and request.profile is None else None
    options = (request.strategy, request.batch_size or default, request.budget, request.run_file, request.allow_stale, request.collective)
    return PlanRequest(request.plan, request.profile, *options)


def _workload(request: TrainRequest, data: LabelledData | None) -> Workload:
    """Return the model with its data, which are read now unless they were read before."""
    made_by = (request.model, request.model_arguments, request.precision)
    if data is not None:
        return with_model(data, *made_by, request.seed)
    if not is_volumes(request.data):
        return load_workload(*made_by, request.data, request.seed)
    table_of(request.data)
    before = None if request.resume is None else load_stored(request.resume)
    network = load_network(*made_by, request.data, request.seed)
    return workload_to_train(network, request.origin, request.data, request.volumes, before)


def _training(request: TrainRequest, run: ChosenRun) -> tuple[PlanRequest, Callable[..., Any]]:
    """Return where the plan comes from, and what trains by it: one network, or one for each fold."""
    planned = _plan_request(request)
    if request.volumes.all_folds:
        return planned_before(request, planned), functools.partial(train_folds, train=train_network)
    if is_volumes(request.data):
        return planned, functools.partial(train_network, tested=functools.partial(print_scores, run.workload))
    return planned, train_network


def _refined(request: TrainRequest, run: ChosenRun, prepared: Prepared, live: Any) -> Prepared:
    """Return the plan with the best measured step where none was given, and the training is long enough to try some."""
    free = request.refine and request.collective is None and request.strategy == "auto" and request.measure == FIRST
    if not free or prepared.profile is None or prepared.plan.schedule in STALE_SCHEDULES:
        return prepared
    steps = request.epochs * -(-run.workload.data.counts["train"] // prepared.plan.batch_size)
    limit_s = refine_limit_s(prepared.plan, steps) if request.refine_time is None else request.refine_time
    if limit_s is None:
        return prepared
    return refined(prepared, live, run.workload.model, run.workload.loss, optimizer_of(run.optimizer), limit_s)


def _saved(request: TrainRequest, prepared: Prepared) -> Prepared:
    """Return the plan with its file: one made from a given profile is saved where the run saves something, to be repeated by."""
    if prepared.plan_file is not None or request.config_file is None:
        return prepared
    path = str(beside(request.run_file, "plan"))
    prepared.plan.save(path)
    click.echo(f"saved {path}")
    return dataclasses.replace(prepared, plan_file=path)


def _save_options(request: TrainRequest, prepared: Prepared | None) -> None:
    """Write the options as they are used, with the plan that was made in place of those that it was made by."""
    if request.config_file is None:
        return
    changes: dict[str, Any] = {"seed": request.seed, "precision": request.precision}
    if prepared is not None and prepared.plan_file is not None:
        changes |= {"plan": prepared.plan_file, "profile": None, "refine-time": None, "allow-stale": None, "collective": None}
        changes |= {"rebalance": None, "measure": None}
    if request.plans_file is not None:
        changes |= {"measure": request.plans_file, "rebalance": None}
    save_config(request.config_file, used_options(click.get_current_context(), changes))
    click.echo(f"saved {request.config_file}")
