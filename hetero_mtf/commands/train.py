"""`hetero-mtf train`: train a model under a plan, which is measured and made first where there is none."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import click

from hetero_mtf.commands.options import shared
from hetero_mtf.commands.options.shared import OptimizerChoice
from hetero_mtf.commands.options.volumes import SIZES, VolumeOptions, default_batch_size, is_volumes, volume_options
from hetero_mtf.planning.plan.names import EARLIER_NAMES
from hetero_mtf.scratch_file import sole_writer

if TYPE_CHECKING:
    from hetero_mtf.commands.output.epochs import Epochs
    from hetero_mtf.commands.process.interruption import StopRequest
    from hetero_mtf.commands.workload.preparation import Prepared
    from hetero_mtf.commands.workload.workload import Workload
    from hetero_mtf.data.labelled import LabelledData
    from hetero_mtf.planning.plan.plan import Plan
    from hetero_mtf.report.measured import Measured
    from hetero_mtf.training.trainer import Trainer


@dataclasses.dataclass(frozen=True)
class TrainRequest:
    """The options of the command, by their names on the command line."""

    model: str
    model_arguments: tuple[tuple[str, Any], ...]
    dtype: str
    data: str
    cluster: str
    plan: str | None
    profile: str | None
    strategy: str
    epochs: int
    batch_size: int | None
    optimizer: str
    learning_rate: float | None
    momentum: float
    decay: str
    budget: float | None
    save: str | None
    save_every: int | None
    resume: str | None
    output: str | None
    seed: int
    compare: bool
    measured: str | None = None
    loss: str | None = None
    metrics: tuple[str, ...] = ()
    keep_going: bool = False
    volumes: VolumeOptions = VolumeOptions()

    def __post_init__(self) -> None:
        if self.plan is not None and self.profile is not None:
            raise click.UsageError("--plan and --profile exclude each other: a plan says all that a profile is read for")
        if self.save_every is not None and self.save is None:
            raise click.UsageError("--save-every needs --save PATH")
        if self.output is not None and not self.output.endswith(".keras"):
            raise click.UsageError(f"--output is {self.output!r}; Keras wants a name that ends in .keras")
        if self.save is not None and self.save.endswith((".keras", ".h5")):
            raise click.UsageError(f"--save is {self.save!r} and writes no Keras file; write --save state.npz, and the model with --output")
        self.volumes.check_data(self.data)

    @property
    def measured_file(self) -> str | None:
        """Where the measured times go: where they are wanted, else beside what the run saves, None if it saves nothing."""
        from hetero_mtf.commands.workload.preparation import measured_path

        beside = self.save or self.output or ("train" if self.plan is None and self.profile is None else None)
        return self.measured or (str(measured_path(beside)) if beside is not None else None)

    @property
    def choice(self) -> OptimizerChoice:
        """The optimizer."""
        return OptimizerChoice(self.optimizer, self.learning_rate, self.momentum, self.decay)


@click.command()
@shared.model_options()
@shared.data_option
@shared.cluster_option
@click.option("--plan", metavar="FILE", help="The plan to train by.")
@click.option("--profile", metavar="FILE", help="A profile to plan from. Without it and --plan the devices are measured first.")
@click.option(
    "--strategy",
    type=shared.RenamedChoice(shared.STRATEGIES, EARLIER_NAMES),
    default="auto",
    help="How to plan where there is no --plan.",
)
@click.option("--epochs", type=click.IntRange(1), default=5, help="Epochs in all, those before a --resume counted.")
@click.option("--batch-size", type=click.IntRange(1), help=f"Samples a step.  [default: the plan's, or {SIZES}]")
@shared.optimizer_options
@shared.learning_rate_option
@shared.objective_options
@shared.budget_option
@click.option("--save", metavar="FILE", help="Where to save all state: at the end, at a signal, and with --save-every on the way.")
@click.option("--save-every", type=click.IntRange(1), metavar="STEPS", help="Steps between saves.  [default: not on the way]")
@click.option("--keep-going", is_flag=True, help="Go on training where the loss is NaN or infinite, rather than stop.")
@click.option("--resume", metavar="FILE", help="Go on from a file that --save wrote, in mid-epoch too, under any plan.")
@click.option("--output", metavar="FILE.keras", help="Where to save the trained Keras model.")
@shared.seed_option
@click.option("--measured", metavar="FILE", help="Where to write measured step times, for explain.  [default: beside what is saved]")
@volume_options
@click.option("--compare", is_flag=True, help="Then time each device alone, an equal split, simpler pipelines and the plan.")
def command(**options: Any) -> None:
    """Train a Keras model and print its test metrics.

    Without --plan or --profile the devices are measured and a plan is made first; both are saved beside the file of --save or
    --output, or else in the working directory as train-profile.json and train-plan.json. So are the measured times of its steps.

    Volumes (--data nifti:TABLE) come from a table of tab-separated columns participant_id, path and the labels', and where wanted
    session and mask. Every file is read before anything else, all faults are listed at once, and what evaluate and predict need to
    know is stored beside the state: state-data.json beside state.npz.
    """
    run = TrainRequest(volumes=VolumeOptions.taken(options), **options)
    from hetero_mtf.commands.process.command_files import train_files
    from hetero_mtf.commands.process.files import check_files

    choice = run.choice
    check_files(train_files(run))
    if run.save is not None:
        click.get_current_context().with_resource(sole_writer(run.save))  # until the command ends
    subject = _subject(run).choosing(shared.ObjectiveChoice(run.loss, run.metrics))
    for line in subject.data.lines:
        click.echo(line)
    from hetero_mtf.commands.process.interruption import ANSWER_LIMIT_S, StopRequest
    from hetero_mtf.commands.workload.preparation import Wanted, prepare
    from hetero_mtf.training.checkpoint import load_state

    seed = run.seed if run.resume is None else load_state(run.resume).seed  # refuses a file that cannot be read, before the work
    default = default_batch_size(run.data) if run.plan is None and run.profile is None else None
    wanted = Wanted(run.plan, run.profile, run.strategy, run.batch_size or default, run.budget, run.save or run.output or "train")
    with StopRequest() as stop, shared.open_cluster(run.cluster) as live:
        stop.unresponsive = functools.partial(live.unresponsive, ANSWER_LIMIT_S)
        prepared = prepare(wanted, live, subject.model, subject.graph, choice)
        metrics, measured = _train(dataclasses.replace(run, seed=seed), subject, prepared, live, stop)
        times = None
        if run.compare:
            from hetero_mtf.commands.workload.comparison import compare

            found = compare(subject, prepared, live, choice, metrics)
            times = found.times
            click.echo(f"\n{found.text}")
    if measured is not None and run.measured_file is not None:
        measured.beside(times).save(run.measured_file)
        click.echo(f"saved {run.measured_file}")


def _subject(run: TrainRequest) -> Workload:
    from hetero_mtf.commands.workload.workload import load_network, load_workload

    if not is_volumes(run.data):
        return load_workload(run.model, run.model_arguments, run.dtype, run.data, run.seed)
    from hetero_mtf.commands.mri.volumes import ModelOrigin, table_of, workload_to_train
    from hetero_mtf.commands.workload.stored import load_stored

    table_of(run.data)
    before = None if run.resume is None else load_stored(run.resume)
    network = load_network(run.model, run.model_arguments, run.dtype, run.data, run.seed)
    return workload_to_train(network, ModelOrigin(run.model, run.model_arguments, run.dtype), run.data, run.volumes, before)


def _train(
    run: TrainRequest, subject: Workload, prepared: Prepared, live: Any, stop: StopRequest
) -> tuple[dict[str, float], Measured | None]:
    """Train with the run's seed, save, and return the test metrics and, if they are wanted, the measured times."""
    from hetero_mtf.commands.output.plan_report import plan_report
    from hetero_mtf.commands.process.interruption import naming
    from hetero_mtf.commands.process.output_file import save_model
    from hetero_mtf.training.trainer import Trainer

    data, plan = subject.data, prepared.plan
    optimizer = run.choice.make(run.epochs * -(-data.counts["train"] // plan.batch_size))
    settings: dict[str, Any] = {"optimizer": optimizer, "loss": subject.loss, "metrics": subject.metrics, "seed": run.seed}
    with Trainer(subject.model, plan, live, **settings) as trainer:
        click.echo(f"{plan_report(plan)}\n\n{subject.loss_text}")
        if run.resume is not None:
            trainer.restore(run.resume)
            click.echo(f"going on after step {trainer.step} of {run.resume}")
        stored = subject.store([path for path in (run.save, run.output) if path is not None])  # --save-every saves before the end
        epochs = _fit(run, data, trainer, stop)
        with naming(epochs.saved), data.testing(plan.batch_size) as source:
            metrics = trainer.evaluate(source)
        click.echo(subject.metrics_text(metrics))
        if run.output is not None:
            save_model(run.output, trainer.to_keras())
        measured = _measured(trainer, plan, epochs.step_s, subject) if run.measured_file is not None else None
    for path in (run.save, run.output, *stored):
        if path is not None:
            click.echo(f"saved {path}")
    return metrics, measured


def _fit(run: TrainRequest, data: LabelledData, trainer: Trainer, stop: StopRequest) -> Epochs:
    """Train, and return what was seen meanwhile."""
    from hetero_mtf.commands.output.epochs import Epochs, Saving

    saving = Saving(run.save, run.save_every, run.keep_going)
    size = trainer.plan.batch_size
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(data.training(size, run.seed))
        validation = stack.enter_context(data.testing(size, "validation")) if data.counts.get("validation") else None
        epochs = stack.enter_context(Epochs(trainer, run.epochs, source, saving, stop))
        stack.enter_context(stop.deferred())
        trainer.fit(source, validation_data=validation, epochs=run.epochs, callbacks=[epochs], keep_going=run.keep_going)
    if epochs.waiting is not None:
        click.echo(f"waiting for data took {epochs.waiting:.1%} of the steps")
    return epochs


def _measured(trainer: Any, plan: Plan, step_s: list[float], subject: Workload) -> Measured | None:
    """Return the times of a run whose state is saved; its parts are those of one more step, traced."""
    from hetero_mtf.planning.layout.records import DevicePart
    from hetero_mtf.report.measured import Measured, measured_task, median_and_spread

    if not step_s:
        return None
    traced = trainer.trace_on_batch(*subject.data.first(plan.batch_size))
    parts = tuple(DevicePart(part.device, part.compute_s, part.communication_s, part.idle_s) for part in traced.parts)
    tasks = tuple(measured_task(task.device, task.task, task.start_s, task.end_s, task.compute_s) for task in traced.tasks)
    median_s, spread = median_and_spread(step_s)
    return Measured(plan.digest, plan.strategy, plan.batch_size, plan.devices, len(step_s), median_s, spread, parts=parts, tasks=tasks)
