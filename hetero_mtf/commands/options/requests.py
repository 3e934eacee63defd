"""The options of calibrate, train, evaluate and predict as records, checked against each other."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import click

from hetero_mtf.commands.options.callbacks import CallbackOptions
from hetero_mtf.commands.options.loss_options import ObjectiveChoice
from hetero_mtf.commands.options.measure_choice import check_measure
from hetero_mtf.commands.options.shared import OptimizerChoice
from hetero_mtf.commands.options.volume_options import VolumeOptions, is_volumes
from hetero_mtf.commands.process.run_files import beside, best_file, config_file
from hetero_mtf.errors import DataError
from hetero_mtf.planning.names import FIRST, MEASURES, STEPS

_NO_MODEL = "--model is missing; only what was trained on nifti:TABLE is stored with its model"


@dataclasses.dataclass(frozen=True)
class ModelOrigin:
    """How a network is made; None for what is not given.

    Parameters
    ----------
    model : the function, as given with --model.
    arguments : what it is called with.
    precision : name of Keras's dtype policy.
    """

    model: str | None
    arguments: tuple[tuple[str, Any], ...]
    precision: str | None


@dataclasses.dataclass(frozen=True)
class CalibrateRequest:
    """The options of calibrate, by their names on the command line."""

    cluster: str
    model: str
    model_arguments: tuple[tuple[str, Any], ...]
    precision: str | None
    batch_size: int
    optimizer: str
    momentum: float
    budget: float | None
    reuse: str | None
    output: str
    as_json: bool

    @property
    def optimizer_choice(self) -> OptimizerChoice:
        """The optimizer, whose learning rate takes no time."""
        return OptimizerChoice(self.optimizer, None, self.momentum)


@dataclasses.dataclass(frozen=True)
class TrainRequest:
    """The options of train, by their names on the command line."""

    model: str
    model_arguments: tuple[tuple[str, Any], ...]
    precision: str | None
    data: str
    cluster: str
    plan: str | None
    profile: str | None
    strategy: str
    epochs: int
    batch_size: int | None
    optimizer: str | None
    learning_rate: float | None
    momentum: float
    decay: str
    budget: float | None
    refine: bool
    refine_time: float | None
    save: str | None
    save_every: int | None
    resume: str | None
    output: str | None
    seed: int
    compare: bool
    verbose: bool = False
    measured: str | None = None
    loss: tuple[tuple[str, str], ...] = ()
    metrics: tuple[tuple[tuple[str, str], ...], ...] = ()
    keep_going: bool = False
    volumes: VolumeOptions = VolumeOptions()
    allow_stale: bool = False
    callbacks: CallbackOptions = CallbackOptions()
    config: str | None = None
    rebalance: bool | None = None
    collective: str | None = None
    measure: str = FIRST
    elastic: bool = False

    def __post_init__(self) -> None:
        check_measure(self)
        if self.rebalance and self.collective is not None:
            raise click.UsageError("--rebalance and --collective exclude each other: other plans choose their methods by size")
        if self.rebalance and self.plan is not None:
            raise click.UsageError("--rebalance goes with --profile or with neither, not with --plan: other plans are made from a profile")
        if self.allow_stale and (self.plan is not None or self.strategy != "auto"):
            raise click.UsageError("--allow-stale goes with --strategy auto, not with --plan or another strategy")
        if self.plan is not None and self.profile is not None:
            raise click.UsageError("--plan and --profile exclude each other: a plan has all that a profile is read for")
        if self.refine_time is not None and (self.plan is not None or not self.refine or self.collective is not None):
            raise click.UsageError("--refine-time goes with neither --plan, which is trained by as it is, --no-refine nor --collective")
        if self.save_every is not None and self.save is None:
            raise click.UsageError("--save-every needs --save PATH")
        if self.output is not None and not self.output.endswith(".keras"):
            raise click.UsageError(f"--output is {self.output!r}; Keras wants a name that ends in .keras")
        if self.save is not None and self.save.endswith((".keras", ".h5")):
            raise click.UsageError(f"--save is {self.save!r} and writes no Keras file; write --save state.npz, and the model with --output")
        self.volumes.check_data(self.data)
        if self.volumes.all_folds and self.resume is not None:
            raise click.UsageError("--resume goes with one fold: with --fold all the same command again goes on where it was interrupted")
        self.callbacks.check(self.save, self.output, is_volumes(self.data))

    @property
    def run_file(self) -> str:
        """The file that other files of the run are named after."""
        return self.save or self.output or "train"

    @property
    def run_files(self) -> list[str]:
        """The states and models that are written, those of the best epoch included."""
        last = [path for path in (self.save, self.output) if path is not None]
        return [*last, *(str(best_file(path)) for path in last if self.callbacks.best is not None)]

    @property
    def measured_file(self) -> str | None:
        """Where the measured times go: where they are wanted, else beside what the run saves, None if it saves nothing."""
        return self.measured or (str(beside(self.run_file, "measured")) if self._saves else None)

    @property
    def config_file(self) -> str | None:
        """Where the options as used are written: beside what the run saves, None if it saves nothing."""
        return str(config_file(self.run_file)) if self._saves else None

    @property
    def plans_file(self) -> str | None:
        """Where the plans are written that were in force when: beside what the run saves, where training steps try plans; else None."""
        return str(beside(self.run_file, "plans")) if self._saves and self.measure == STEPS else None

    @property
    def last_plan_file(self) -> str | None:
        """Where the plan is written that was in force at the end, where training steps try plans; else None."""
        return None if self.plans_file is None else str(beside(self.run_file, "plan"))

    @property
    def repeated(self) -> str | None:
        """The file with the plans of an earlier training, which are repeated; None where none are."""
        return None if self.measure in MEASURES else self.measure

    @property
    def plans_by_trainer(self) -> bool:
        """Whether the trainer finds its plans: as it tries or repeats them, or takes a kept one."""
        return self.measure != FIRST and self.plan is None and self.profile is None

    @property
    def _saves(self) -> bool:
        return self.save is not None or self.output is not None or (self.plan is None and self.profile is None)

    @property
    def optimizer_choice(self) -> OptimizerChoice:
        """The optimizer."""
        return OptimizerChoice(self.optimizer or "sgd", self.learning_rate, self.momentum, self.decay)

    @property
    def objective_choice(self) -> ObjectiveChoice:
        """The loss and the metrics."""
        return ObjectiveChoice.given(self.loss, self.metrics)

    @property
    def origin(self) -> ModelOrigin:
        """How the network is made."""
        return ModelOrigin(self.model, self.model_arguments, self.precision)


@dataclasses.dataclass(frozen=True)
class EvaluateRequest:
    """The options of evaluate, by their names on the command line."""

    model: str | None
    model_arguments: tuple[tuple[str, Any], ...]
    precision: str | None
    data: str
    checkpoint: str
    cluster: str = "local"
    plan: str | None = None
    batch_size: int | None = None
    part: str = "test"
    positive: str | None = None
    json: str | None = None
    plot: str | None = None
    html: str | None = None
    loss: tuple[tuple[str, str], ...] = ()
    metrics: tuple[tuple[tuple[str, str], ...], ...] = ()
    volumes: VolumeOptions = VolumeOptions()

    def __post_init__(self) -> None:
        self.volumes.check_data(self.data)
        if is_volumes(self.data):
            if self.loss or self.metrics:
                raise click.UsageError("--loss and --metrics do not go with --data nifti:TABLE, of which the scores are printed")
            return
        if self.model is None:
            raise click.UsageError(_NO_MODEL)
        for name in ("positive", "json", "plot", "html"):
            if getattr(self, name) is not None:
                raise click.UsageError(f"--{name} goes with --data nifti:TABLE only")

    @property
    def objective_choice(self) -> ObjectiveChoice:
        """The loss and the metrics."""
        return ObjectiveChoice.given(self.loss, self.metrics)

    @property
    def origin(self) -> ModelOrigin:
        """How the network is made."""
        return ModelOrigin(self.model, self.model_arguments, self.precision)


@dataclasses.dataclass(frozen=True)
class PredictRequest:
    """The options of predict, by their names on the command line."""

    model: str | None
    model_arguments: tuple[tuple[str, Any], ...]
    precision: str | None
    source: str | None
    data: str | None
    checkpoint: str
    cluster: str = "local"
    plan: str | None = None
    batch_size: int | None = None
    output: str | None = None
    positive: str | None = None
    grad_cam: str | None = None
    grad_cam_layer: str | None = None
    grad_cam_class: tuple[str, ...] = ()
    participant: tuple[str, ...] = ()
    volumes: VolumeOptions = VolumeOptions()

    def __post_init__(self) -> None:
        if (self.source is None) == (self.data is None):
            raise click.UsageError("give one of --input npz:FILE and --data nifti:TABLE")
        if self.data is not None and not is_volumes(self.data):
            raise click.UsageError(f"--data is {self.data!r}; write nifti:TABLE, or --input npz:FILE")
        self.volumes.check_data(self.data or "")
        if self.data is None and self.model is None:
            raise click.UsageError(_NO_MODEL)
        if self.data is None and (self.grad_cam is not None or self.positive is not None):
            raise click.UsageError("--grad-cam and --positive go with --data nifti:TABLE only")
        if self.grad_cam is None and (self.grad_cam_layer or self.grad_cam_class or self.participant):
            raise click.UsageError("--grad-cam-layer, --grad-cam-class and --participant go with --grad-cam DIR")

    @property
    def target(self) -> str:
        """The file to write."""
        return self.output or ("predictions.npz" if self.data is None else "predictions.tsv")

    @property
    def origin(self) -> ModelOrigin:
        """How the network is made."""
        return ModelOrigin(self.model, self.model_arguments, self.precision)


def check_source(source: str) -> pathlib.Path:
    """Return the path behind "npz:".

    Parameters
    ----------
    source : "npz:FILE".

    Raises
    ------
    DataError
        If it is not of this form, or there is no such file.
    """
    kind, _, place = source.partition(":")
    if kind != "npz" or not place:
        raise DataError(f"--input is {source!r}", "write npz:FILE")
    path = pathlib.Path(place)
    if not path.exists():
        raise DataError(f"{path} does not exist", "check the path behind npz:")
    return path
