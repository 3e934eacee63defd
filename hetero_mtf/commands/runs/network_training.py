"""The training of one network: trained by a plan, tested, saved, and its steps measured; imported after TensorFlow is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import click

from hetero_mtf.commands.options.requests import TrainRequest
from hetero_mtf.commands.output.plan_report import plan_report, plan_summary
from hetero_mtf.commands.process.interruption import StopRequest, naming
from hetero_mtf.commands.process.output_file import save_model
from hetero_mtf.commands.runs.begun_trainer import begun_trainer
from hetero_mtf.commands.workload.first_plan import Prepared
from hetero_mtf.commands.workload.fit import fit
from hetero_mtf.commands.workload.run_settings import ChosenRun
from hetero_mtf.commands.workload.workload import Workload
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.spread import median_and_spread
from hetero_mtf.report.measured import Measured, MeasuredPart, measured_task
from hetero_mtf.report.section import sections_text
from hetero_mtf.report.time_line.plan_spans import plan_spans, timed_history
from hetero_mtf.training.control.text import split_text
from hetero_mtf.training.timing import trace_median_step


class TrainingOutcome(NamedTuple):
    """What a training gave.

    Parameters
    ----------
    metrics : the test metrics.
    measured : the measured times, None where they are not wanted.
    plan : the plan in force at its end.
    """

    metrics: dict[str, float]
    measured: Measured | None
    plan: Plan


def train_network(
    request: TrainRequest,
    run: ChosenRun,
    prepared: Prepared | None,
    live: Any,
    stop: StopRequest,
    tested: Callable[[Any], None] = lambda trainer: None,
    shows_plan: bool = True,
) -> TrainingOutcome:
    """Train with the run's seed, save, and return the test metrics and, if they are wanted, the measured times.

    Parameters
    ----------
    request, run : the options, and what is trained with.
    prepared : the plan; None where the trainer finds its plans, by --measure.
    live : the cluster.
    stop : a request to stop.
    tested : called with the trainer once it is tested.
    shows_plan : whether the plan is printed; all folds but the first leave it out.

    Raises
    ------
    HeteroError
        If the plan cannot be trained by, or something cannot be written.
    """
    workload, data = run.workload, run.workload.data
    with begun_trainer(request, run, prepared, live) as trainer:
        plan = trainer.plan
        click.echo(f"{_plan_text(request, prepared, plan, workload)}\n\n{workload.loss_text}" if shows_plan else workload.loss_text)
        if request.resume is not None:
            click.echo(f"going on after step {trainer.step} of {request.resume}")
        trainer.notes = run.notes.document()
        stored = workload.store(request.run_files)  # --save-every saves before the end
        epochs = fit(request, workload, trainer, live, stop, run.notes)
        history = timed_history(trainer.plan_history, epochs.timed_steps, trainer.step)
        if len(history.spans) > 1:
            click.echo(sections_text([plan_spans(history, split_text)]))
        with naming(epochs.saved), data.testing(plan.batch_size) as source:
            metrics = trainer.evaluate(source)
            click.echo(workload.metrics_text(metrics))
            tested(trainer)
        if request.output is not None:
            save_model(request.output, trainer.to_keras())
        if request.plans_file is not None:
            history.save(request.plans_file)
        if request.last_plan_file is not None:
            trainer.plan.save(request.last_plan_file)
        steady = request.measured_file is not None and not trainer.moves  # else steps are of several plans
        measured = _measured(trainer, plan, epochs.step_s, workload) if steady else None
        trained = TrainingOutcome(metrics, measured, trainer.plan)
    for path in (request.save, request.output, request.plans_file, request.last_plan_file, *stored):
        if path is not None:
            click.echo(f"saved {path}")
    return trained


def _plan_text(request: TrainRequest, prepared: Prepared | None, plan: Plan, workload: Workload) -> str:
    """Return the plan that training begins with, in a few lines or in full."""
    if request.verbose:
        return plan_report(plan)
    file = None if prepared is None else prepared.plan_file
    shown_by = "--verbose" if file is None else f"--verbose or hetero-mtf explain {file}"
    return f"{plan_summary(plan, workload.graph)}\nThe full plan: {shown_by}"


def _measured(trainer: Any, plan: Plan, step_s: list[float], workload: Workload) -> Measured | None:
    """Return the times of a run whose state is saved; its parts are those of a further step, traced."""
    if not step_s:
        return None
    traced = trace_median_step(trainer, *workload.data.first(plan.batch_size))
    parts = tuple(MeasuredPart(p.device, p.compute_s, p.communication_s, p.idle_s, overlapped_s=p.overlapped_s) for p in traced.parts)
    tasks = tuple(measured_task(task.device, task.task, task.start_s, task.end_s, task.compute_s) for task in traced.tasks)
    median_s, spread = median_and_spread(step_s)
    return Measured(plan.digest, plan.strategy, plan.batch_size, plan.devices, len(step_s), median_s, spread, parts=parts, tasks=tasks)
