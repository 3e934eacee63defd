"""`hetero-mtf train`: train a model under a plan; without one, the devices are measured and a plan is made first."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from hetero_mtf.commands.options import shared
from hetero_mtf.commands.options.callbacks import CallbackOptions, callback_options
from hetero_mtf.commands.options.config_file import HEADER, config_option
from hetero_mtf.commands.options.loss_options import objective_options
from hetero_mtf.commands.options.model import model_options
from hetero_mtf.commands.options.pipeline_options import allow_stale_option
from hetero_mtf.commands.options.requests import TrainRequest
from hetero_mtf.commands.options.typed import refuse_unused
from hetero_mtf.commands.options.volume_options import SIZES, VolumeOptions, data_option, default_batch_size, is_volumes, volume_options
from hetero_mtf.planning.names import EARLIER_NAMES, STALE_SCHEDULES
from hetero_mtf.scratch_file import sole_writer

if TYPE_CHECKING:
    from hetero_mtf.commands.process.interruption import StopRequest
    from hetero_mtf.commands.workload.first_plan import PlanRequest, Prepared
    from hetero_mtf.commands.workload.run_notes import RunNotes
    from hetero_mtf.commands.workload.run_settings import ChosenRun
    from hetero_mtf.commands.workload.workload import Workload
    from hetero_mtf.planning.plan.plan import Plan
    from hetero_mtf.report.measured import Measured


@click.command()
@config_option
@model_options()
@data_option
@shared.cluster_option
@click.option("--plan", metavar="FILE", help="The plan to train by.")
@click.option("--profile", metavar="FILE", help="A profile to plan from. Without it and --plan the devices are measured first.")
@click.option(
    "--strategy",
    type=shared.RenamedChoice(shared.STRATEGIES, EARLIER_NAMES),
    default="auto",
    help="How to plan where there is no --plan.",
)
@allow_stale_option
@click.option("--epochs", type=click.IntRange(1), default=5, help="Epochs in all, those before a --resume counted.")
@click.option("--batch-size", type=click.IntRange(1), help=f"Batch size, samples/step.  [default: the plan's, or {SIZES}]")
@shared.collective_option
@shared.optimizer_options(compiled=True)
@shared.learning_rate_option
@objective_options()
@shared.budget_option
@shared.refine_options(default=True)
@click.option(
    "--rebalance/--no-rebalance",
    default=None,
    help="Go on under another plan where a device becomes slower or faster and that pays.  [default: rebalance where --strategy is auto]",
)
@click.option("--save", metavar="FILE", help="Where to save all state: at the end, at a signal, and with --save-every on the way.")
@click.option("--save-every", type=click.IntRange(1), metavar="STEPS", help="Steps between saves.  [default: not on the way]")
@callback_options
@click.option("--keep-going", is_flag=True, help="Go on training where the loss is NaN or infinite, rather than stop.")
@click.option("--resume", metavar="FILE", help="Go on from a file that --save wrote, in mid-epoch too, under any plan.")
@click.option("--output", metavar="FILE.keras", help="Where to save the trained Keras model.")
@shared.seed_option
@click.option("--measured", metavar="FILE", help="Where to write measured step times, for explain.  [default: beside what is saved]")
@volume_options
@click.option("--verbose", is_flag=True, help="Print the plan in full: layouts, alternatives and contributions.  [default: in a few lines]")
@click.option("--compare", is_flag=True, help="Then time each device alone, an equal split, simpler pipelines and the plan.")
def command(**options: Any) -> None:
    """Train a Keras model and print its test metrics.

    Without --plan or --profile the devices are measured and a plan is made first; both are saved beside the file of --save or
    --output, or else in the working directory as train-profile.json and train-plan.json. So are the measured times of its steps, and
    all options: train --config state-config.yaml repeats the training of state.npz. A plan from --profile is saved beside --save.

    Volumes (--data nifti:TABLE) come from a table of tab-separated columns participant_id, path and the labels', and where wanted
    session and mask. Every file is read before anything else, all faults are listed at once, and what evaluate and predict need to
    know is stored beside the state: state-data.json beside state.npz.
    """
    request = TrainRequest(volumes=VolumeOptions.taken(options), callbacks=CallbackOptions.taken(options), **options)
    from hetero_mtf.commands.command_files import train_files
    from hetero_mtf.commands.process.files import check_files
    from hetero_mtf.commands.process.output_file import check_folder
    from hetero_mtf.commands.process.start_line import print_start_line

    request.optimizer_choice  # raises where options exclude each other
    _check_used(request)
    check_files(train_files(request))
    _check_replaced(request)
    check_folder(request.callbacks.log_dir, "--log-dir")
    if request.save is not None:
        click.get_current_context().with_resource(sole_writer(request.save))  # until the command ends
    print_start_line(request.cluster)
    before = _before(request)
    request = dataclasses.replace(request, seed=before.seed, precision=request.precision or before.notes.precision)
    workload = _workload(request)  # loads TensorFlow, after the data, which fail sooner
    from hetero_mtf.commands.output.plan_report import verdict_text
    from hetero_mtf.commands.process.interruption import ANSWER_LIMIT_S, StopRequest
    from hetero_mtf.commands.workload.first_plan import prepare
    from hetero_mtf.commands.workload.fit import check_watched
    from hetero_mtf.commands.workload.run_settings import chosen_run

    run = chosen_run(request, workload, before.notes)
    workload, choice = run.workload, run.optimizer
    check_watched(request, workload)
    for line in (*workload.data.lines, *run.lines):
        click.echo(line)
    with StopRequest() as stop, shared.open_cluster(request.cluster) as live:
        stop.unresponsive = functools.partial(live.unresponsive, ANSWER_LIMIT_S)
        planned, train = _training(request, run)
        prepared = prepare(planned, live, workload.model, workload.graph, choice)
        prepared = _saved(request, _refined(request, run, prepared, live))
        _save_options(request, prepared)
        metrics, measured = train(request, run, prepared, live, stop)
        comparison = None
        if request.compare:
            from hetero_mtf.commands.workload.comparison import compare

            comparison = compare(workload, prepared, live, choice, metrics)
    times = comparison.times if comparison is not None else None
    report = [verdict_text(prepared.plan, prepared.profile, measured, times), comparison.text if comparison is not None else ""]
    for text in filter(None, report):
        click.echo(f"\n{text}")
    if measured is not None and request.measured_file is not None:
        measured.beside(times).save(request.measured_file)
        click.echo(f"saved {request.measured_file}")


def _check_used(request: TrainRequest) -> None:
    """Refuse options that are typed beside others under which they have no effect."""
    if request.plan is not None and request.strategy != "auto":
        refuse_unused(("strategy",), f"training is by the plan {request.plan}; leave out one or the other")
    if request.refine and (request.plan is not None or request.collective is not None or request.strategy != "auto"):
        refuse_unused(("refine",), "it goes with --strategy auto, without --plan and --collective; leave out one or the other")


def _check_replaced(request: TrainRequest) -> None:
    """Refuse to replace a file of options that somebody wrote by hand with those that are used.

    Parameters
    ----------
    request : the options.

    Raises
    ------
    click.UsageError
        If --config names the place where they are written, and not a file that was written there.
    """
    from hetero_mtf.commands.process.files import identity

    if request.config is None or request.config_file is None or identity(request.config) != identity(request.config_file):
        return
    with open(request.config, "rb") as file:
        if not file.read(len(HEADER)) == HEADER.encode():
            raise click.UsageError(f"--config {request.config} would be replaced by the options as they are used; rename it")


class _Before(NamedTuple):
    """What a training goes on from."""

    seed: int
    notes: RunNotes


def _before(request: TrainRequest) -> _Before:
    """Return the seed and the notes of the state to go on from; refuses a file that cannot be read, before the work."""
    from hetero_mtf.commands.process.quiet import load_tensorflow
    from hetero_mtf.commands.workload.run_notes import RunNotes, read_notes

    if request.resume is None:
        return _Before(request.seed, RunNotes())
    load_tensorflow()
    from hetero_mtf.training.checkpoint import load_state

    state = load_state(request.resume)
    return _Before(state.seed, read_notes(state.notes, request.resume))


def _plan_request(request: TrainRequest) -> PlanRequest:
    from hetero_mtf.commands.workload.first_plan import PlanRequest

    default = default_batch_size(request.data) if request.plan is None and request.profile is None else None
    options = (request.strategy, request.batch_size or default, request.budget, request.run_file, request.allow_stale, request.collective)
    return PlanRequest(request.plan, request.profile, *options)


def _workload(request: TrainRequest) -> Workload:
    from hetero_mtf.commands.workload.workload import load_network, load_workload

    if not is_volumes(request.data):
        return load_workload(request.model, request.model_arguments, request.precision, request.data, request.seed)
    from hetero_mtf.commands.mri.volume_workload import table_of, workload_to_train
    from hetero_mtf.commands.workload.data_record import load_stored

    table_of(request.data)
    before = None if request.resume is None else load_stored(request.resume)
    network = load_network(request.model, request.model_arguments, request.precision, request.data, request.seed)
    return workload_to_train(network, request.origin, request.data, request.volumes, before)


def _training(request: TrainRequest, run: ChosenRun) -> tuple[PlanRequest, Callable[..., Any]]:
    """Return where the plan comes from, and what trains by it: one network, or one for each fold."""
    planned = _plan_request(request)
    if request.volumes.all_folds:
        from hetero_mtf.commands.mri.fold_training import planned_before, train_folds

        return planned_before(request, planned), functools.partial(train_folds, train=_train)
    if is_volumes(request.data):
        from hetero_mtf.commands.mri.score_report import print_scores

        return planned, functools.partial(_train, tested=functools.partial(print_scores, run.workload))
    return planned, _train


def _refined(request: TrainRequest, run: ChosenRun, prepared: Prepared, live: Any) -> Prepared:
    """Return the plan with the best measured step where none was given, and the training is long enough to try some."""
    from hetero_mtf.commands.workload.refining import refine_limit_s, refined

    free = request.refine and request.collective is None and request.strategy == "auto"
    if not free or prepared.profile is None or prepared.plan.schedule in STALE_SCHEDULES:
        return prepared
    steps = request.epochs * -(-run.workload.data.counts["train"] // prepared.plan.batch_size)
    limit_s = refine_limit_s(prepared.plan, steps) if request.refine_time is None else request.refine_time
    if limit_s is None:
        return prepared
    return refined(prepared, live, run.workload.model, run.workload.loss, run.optimizer, limit_s)


def _saved(request: TrainRequest, prepared: Prepared) -> Prepared:
    """Return the plan with its file: one made from a given profile is saved where the run saves something, to be repeated by."""
    from hetero_mtf.commands.process.run_files import beside

    if prepared.plan_file is not None or request.config_file is None:
        return prepared
    path = str(beside(request.run_file, "plan"))
    prepared.plan.save(path)
    click.echo(f"saved {path}")
    return dataclasses.replace(prepared, plan_file=path)


def _train(
    request: TrainRequest,
    run: ChosenRun,
    prepared: Prepared,
    live: Any,
    stop: StopRequest,
    tested: Callable[[Any], None] = lambda trainer: None,
    shows_plan: bool = True,
) -> tuple[dict[str, float], Measured | None]:
    """Train with the run's seed, save, and return the test metrics and, if they are wanted, the measured times.

    `tested` is called with the trained network once it is tested; all folds but the first leave the plan out of what they print.
    """
    from hetero_mtf.commands.output.plan_report import plan_report, plan_summary
    from hetero_mtf.commands.process.interruption import naming
    from hetero_mtf.commands.process.output_file import save_model
    from hetero_mtf.commands.workload.fit import fit
    from hetero_mtf.training.rebalancing.text import move_text
    from hetero_mtf.training.trainer import Trainer

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
    from hetero_mtf.training.rebalancing.rebalancer import can_rebalance

    if request.rebalance is None:
        free = request.strategy == "auto" and request.collective is None
        return free and prepared.profile is not None and can_rebalance(prepared.plan, prepared.profile)
    return request.rebalance


def _save_options(request: TrainRequest, prepared: Prepared) -> None:
    """Write the options as they are used, with the plan that was made in place of those that it was made by."""
    from hetero_mtf.commands.options.config_record import save_config, used_options

    if request.config_file is None:
        return
    changes: dict[str, Any] = {"seed": request.seed, "precision": request.precision}
    if prepared.plan_file is not None:
        changes |= {"plan": prepared.plan_file, "profile": None, "refine-time": None, "allow-stale": None, "collective": None}
        changes["rebalance"] = None
    save_config(request.config_file, used_options(click.get_current_context(), changes))
    click.echo(f"saved {request.config_file}")


def _measured(trainer: Any, plan: Plan, step_s: list[float], workload: Workload) -> Measured | None:
    """Return the times of a run whose state is saved; its parts are those of a further step, traced."""
    from hetero_mtf.planning.profile.spread import median_and_spread
    from hetero_mtf.report.measured import Measured, MeasuredPart, measured_task
    from hetero_mtf.training.timing import trace_median_step

    if not step_s:
        return None
    traced = trace_median_step(trainer, *workload.data.first(plan.batch_size))
    parts = tuple(MeasuredPart(p.device, p.compute_s, p.communication_s, p.idle_s, overlapped_s=p.overlapped_s) for p in traced.parts)
    tasks = tuple(measured_task(task.device, task.task, task.start_s, task.end_s, task.compute_s) for task in traced.tasks)
    median_s, spread = median_and_spread(step_s)
    return Measured(plan.digest, plan.strategy, plan.batch_size, plan.devices, len(step_s), median_s, spread, parts=parts, tasks=tasks)
