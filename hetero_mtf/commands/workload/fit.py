"""The training itself: Keras's `fit` with the callbacks of the command line."""

from __future__ import annotations

import contextlib
from typing import Any

import click

from hetero_mtf.commands.options.requests import TrainRequest
from hetero_mtf.commands.output.epoch_logs import EpochLogs
from hetero_mtf.commands.output.epochs import Epochs, Saving
from hetero_mtf.commands.output.kept_states import KeptStates
from hetero_mtf.commands.output.move_lines import MoveLines
from hetero_mtf.commands.output.save_times import SaveTimes
from hetero_mtf.commands.output.watching import BestEpoch, StopEarly
from hetero_mtf.commands.process.interruption import StopRequest
from hetero_mtf.commands.process.run_files import best_file
from hetero_mtf.commands.workload.logged_metrics import check_monitored
from hetero_mtf.commands.workload.run_notes import RunNotes, read_notes
from hetero_mtf.commands.workload.workload import Workload
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.training.checkpoint import load_state
from hetero_mtf.training.keras_side import write_weights
from hetero_mtf.training.trainer import Trainer


def names_logged(workload: Workload) -> tuple[str, ...]:
    """Return the names in the logs of an epoch, those of validation included where there are samples for it.

    Parameters
    ----------
    workload : model, data, loss and metrics.
    """
    validated = tuple(f"val_{name}" for name in workload.logged) if workload.data.counts.get("validation") else ()
    return (*workload.logged, *validated)


def check_watched(request: TrainRequest, workload: Workload) -> None:
    """Refuse metrics of --early-stopping and --best that are not logged or have no direction, before anything is measured.

    Parameters
    ----------
    request, workload : what is trained.

    Raises
    ------
    UnsupportedError
        If there is one; those there are are listed.
    """
    names, of = names_logged(workload), (workload.data, workload.graph, workload.loss, workload.metrics)
    for option, name in (("--early-stopping", request.callbacks.early_stopping), ("--best", request.callbacks.best)):
        if name is not None:
            check_monitored(name, option, names, *of)


def fit(request: TrainRequest, workload: Workload, trainer: Trainer, live: Any, stop: StopRequest, notes: RunNotes) -> Epochs:
    """Train, and return what was seen meanwhile.

    Parameters
    ----------
    request : the options, with the seed of the run.
    workload : what is trained.
    trainer : the trainer, with the state that training goes on from.
    live : the cluster.
    stop : a request to stop.
    notes : what is stored with its states; what was watched before is gone on with.
    """
    options, data, size = request.callbacks, workload.data, trainer.plan.batch_size
    resumed = request.resume is not None
    kept = None if options.keep is None else KeptStates(str(request.save), options.keep, trainer.step if resumed else None)
    saving = Saving(request.save, _save_times(request, trainer.plan, live), request.keep_going, kept, request.plans_file)
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(data.training(size, request.seed))
        validation = stack.enter_context(data.testing(size, "validation")) if data.counts.get("validation") else None
        callbacks: list[Any] = _watches(request, workload, trainer, notes)
        watches = tuple(callbacks)
        if options.log_dir is not None:
            epoch = (trainer.position or {}).get("epoch", 0) if resumed else None
            logs = stack.enter_context(EpochLogs(options.log_dir, source, data.counts["train"], epoch, workload.logged))
            callbacks += logs.callbacks
        callbacks += [] if request.repeated is not None else [MoveLines(trainer)]
        epochs = stack.enter_context(Epochs(trainer, request.epochs, source, saving, stop))
        stack.enter_context(stop.deferred())
        settings: dict[str, Any] = {"epochs": request.epochs, "verbose": 0, "keep_going": request.keep_going}
        try:
            trainer.fit(source, validation_data=validation, callbacks=[*callbacks, epochs], **settings)
        finally:
            for line in filter(None, (watch.text() for watch in watches)):
                click.echo(line)
    if epochs.waiting is not None:
        click.echo(f"waiting for data took {epochs.waiting:.1%} of the steps")
    return epochs


def _save_times(request: TrainRequest, plan: Plan, live: Any) -> SaveTimes | None:
    """Return when to save on the way: as asked for, else by time where workers are on other hosts, which may be lost.

    Where gradients are late a save changes the numbers, as the batches in flight are trained first, so it is never by time.
    """
    if request.save_every is not None:
        return SaveTimes(request.save_every)
    is_synchronous = plan.execution.stale is None and plan.gradient_sync == "all_reduce"
    return SaveTimes() if request.save is not None and live.has_servers and is_synchronous else None


def _watches(request: TrainRequest, workload: Workload, trainer: Trainer, notes: RunNotes) -> list[Any]:
    """Return early stopping and the best epoch, as far as they are asked for."""
    options, watches = request.callbacks, list[Any]()
    if options.early_stopping is not None:
        before = notes.watched.get(options.early_stopping)
        restore = options.restore_best_weights is not False
        weights = _best_weights(request, workload, trainer, before[0]) if restore and before is not None else None
        watches.append(StopEarly(trainer, options.early_stopping, options.patience or 0, restore, before, weights))
    if options.best is not None:
        watches.append(BestEpoch(trainer, options.best, request.save, request.output, notes.watched.get(options.best)))
    return watches


def _best_weights(request: TrainRequest, workload: Workload, trainer: Trainer, best: float) -> Any:
    """Return the weights of the best epoch of the training that goes on, where --best has saved it by the same metric; else None."""
    metric = request.callbacks.early_stopping
    if request.save is None or metric != request.callbacks.best or not best_file(request.save).is_file():
        return None
    state = load_state(best_file(request.save))
    seen = read_notes(state.notes, str(best_file(request.save))).watched.get(str(metric))
    if state.digest != workload.graph.digest or seen is None or seen[0] != best:
        return None  # the file of another training
    model = trainer.to_keras()
    write_weights(model, workload.graph, state.values)
    return model.get_weights()
