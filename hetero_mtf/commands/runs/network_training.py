"""The training of one network: trained by a plan, tested, saved, and its steps measured; imported after TensorFlow is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from hetero_mtf.commands.options.requests import TrainRequest
from hetero_mtf.commands.output.plan_report import plan_report, plan_summary
from hetero_mtf.commands.process.interruption import StopRequest, naming
from hetero_mtf.commands.process.output_file import save_model
from hetero_mtf.commands.workload.first_plan import Prepared
from hetero_mtf.commands.workload.fit import fit
from hetero_mtf.commands.workload.run_settings import ChosenRun
from hetero_mtf.commands.workload.workload import Workload
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.spread import median_and_spread
from hetero_mtf.report.measured import Measured, MeasuredPart, measured_task
from hetero_mtf.training.control.rebalance_request import can_rebalance
from hetero_mtf.training.control.text import move_text
from hetero_mtf.training.timing import trace_median_step
from hetero_mtf.training.trainer import Trainer


def train_network(
    request: TrainRequest,
    run: ChosenRun,
    prepared: Prepared,
    live: Any,
    stop: StopRequest,
    tested: Callable[[Any], None] = lambda trainer: None,
    shows_plan: bool = True,
) -> tuple[dict[str, float], Measured | None]:
    """Train with the run's seed, save, and return the test metrics and, if they are wanted, the measured times.

    Parameters
    ----------
    request, run : the options, and what is trained with.
    prepared : the plan.
    live : the cluster.
    stop : a request to stop.
    tested : called with the trainer once it is tested.
    shows_plan : whether the plan is printed; all folds but the first leave it out.

    Raises
    ------
    HeteroError
        If the plan cannot be trained by, or something cannot be written.
    """
    workload, data, plan = run.workload, run.workload.data, prepared.plan
    shown_by = "--verbose" if prepared.plan_file is None else f"--verbose or hetero-mtf explain {prepared.plan_file}"
    optimizer = run.make_optimizer(request.epochs * -(-data.counts["train"] // plan.batch_size))
    settings: dict[str, Any] = {"optimizer": optimizer, "loss": workload.loss, "metrics": workload.metrics, "seed": request.seed}
    settings |= {"profile": prepared.profile, "rebalance": _rebalances(request, prepared)}
    with Trainer(workload.model, plan, live, **settings) as trainer:
        plan_text = plan_report(plan) if request.verbose else f"{plan_summary(plan, workload.graph)}\nThe full plan: {shown_by}"
        click.echo(f"{plan_text}\n\n{workload.loss_text}" if shows_plan else workload.loss_text)
        if request.resume is not None:
            trainer.restore(request.resume)
            click.echo(f"going on after step {trainer.step} of {request.resume}")
        trainer.notes = run.notes.document()
        stored = workload.store(request.run_files)  # --save-every saves before the end
        epochs = fit(request, workload, trainer, stop, run.notes)
        for move in trainer.moves:
            click.echo(move_text(move))
        with naming(epochs.saved), data.testing(plan.batch_size) as source:
            metrics = trainer.evaluate(source)
            click.echo(workload.metrics_text(metrics))
            tested(trainer)
        if request.output is not None:
            save_model(request.output, trainer.to_keras())
        steady = request.measured_file is not None and not trainer.moves  # else steps are of several plans
        measured = _measured(trainer, plan, epochs.step_s, workload) if steady else None
    for path in (request.save, request.output, *stored):
        if path is not None:
            click.echo(f"saved {path}")
    return metrics, measured


def _rebalances(request: TrainRequest, prepared: Prepared) -> bool:
    """Return whether to rebalance: where that is asked for, and by default where the plan is the best of all strategies."""
    if request.rebalance is None:
        free = request.strategy == "auto" and request.collective is None
        return free and prepared.profile is not None and can_rebalance(prepared.plan, prepared.profile)
    return request.rebalance


def _measured(trainer: Any, plan: Plan, step_s: list[float], workload: Workload) -> Measured | None:
    """Return the times of a run whose state is saved; its parts are those of a further step, traced."""
    if not step_s:
        return None
    traced = trace_median_step(trainer, *workload.data.first(plan.batch_size))
    parts = tuple(MeasuredPart(p.device, p.compute_s, p.communication_s, p.idle_s, overlapped_s=p.overlapped_s) for p in traced.parts)
    tasks = tuple(measured_task(task.device, task.task, task.start_s, task.end_s, task.compute_s) for task in traced.tasks)
    median_s, spread = median_and_spread(step_s)
    return Measured(plan.digest, plan.strategy, plan.batch_size, plan.devices, len(step_s), median_s, spread, parts=parts, tasks=tasks)
