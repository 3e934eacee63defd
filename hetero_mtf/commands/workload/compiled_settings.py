"""What a model in a file of Keras was compiled with, as defaults for training; no code that the file names is imported or called."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from hetero_mtf.commands.options.loss_options import Identified, ObjectiveChoice
from hetero_mtf.commands.options.shared import OptimizerChoice
from hetero_mtf.commands.workload.chosen_optimizer import optimizer_of
from hetero_mtf.commands.workload.identifiers import loss_kind
from hetero_mtf.commands.workload.keras_file import configuration_in
from hetero_mtf.commands.workload.plain_configuration import ForeignObject, plain_configuration
from hetero_mtf.errors import UnsupportedError
from hetero_mtf.units import value_text

_OF_PYTHON = "name the model's function with --model FILE.py:function if you trust it"


@dataclasses.dataclass(frozen=True)
class Compiled:
    """What a model was compiled with; None or empty for nothing.

    Parameters
    ----------
    path : path of its file.
    optimizer, loss : as `plain_configuration` gives them, or an identifier.
    metrics : likewise.
    foreign : "optimizer", "loss" or "metrics" -> what of it cannot be taken over, and why not.
    """

    path: str
    optimizer: Mapping[str, Any] | None = None
    loss: Identified | None = None
    metrics: tuple[Identified, ...] = ()
    foreign: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def objective(self, output_shape: Sequence[int]) -> ObjectiveChoice:
        """Return its loss and metrics as a choice that names the file, with Keras's own defaults.

        Parameters
        ----------
        output_shape : shape of one sample of the model's output, by which Keras chooses an accuracy.
        """
        loss, single = self.loss, tuple(output_shape[-1:]) == (1,)
        if isinstance(loss, str):
            kind = loss_kind(loss)
            loss = {"class_name": kind.__name__, "config": {}} if inspect.isclass(kind) else loss
        binary = {"class_name": "BinaryAccuracy", "config": {"name": "accuracy"}}
        metrics = tuple(binary if single and metric in ("accuracy", "acc") else metric for metric in self.metrics)
        origin = f"as {self.path} was compiled with"
        return ObjectiveChoice(loss, metrics, origin, origin)

    def optimizer_choice(self, given: OptimizerChoice) -> OptimizerChoice:
        """Return its optimizer, with the learning rate and decay of the options where they are given.

        Parameters
        ----------
        given : the options, none of which names an optimizer.
        """
        assert self.optimizer is not None
        name = str(self.optimizer["class_name"]).lower()
        return OptimizerChoice(name, given.learning_rate, given.momentum, given.decay, self.optimizer)

    def check(self, taken: set[str]) -> None:
        """Refuse what is to be taken over and is not Keras's own.

        Parameters
        ----------
        taken : what is taken over, of "optimizer", "loss" and "metrics".

        Raises
        ------
        UnsupportedError
            If there is such a thing.
        """
        wrong = [what for what in ("optimizer", "loss", "metrics") if what in taken and what in self.foreign]
        if wrong:
            said = f"{self.path} was compiled with {' and with '.join(self.foreign[what] for what in wrong)}"
            raise UnsupportedError(said, f"give {' and '.join(f'--{what}' for what in wrong)}, or {_OF_PYTHON}")

    def text(self, taken: set[str]) -> str:
        """Return a line on what is taken over, "" for nothing.

        Parameters
        ----------
        taken : as for `check`.
        """
        named: dict[str, Sequence[Identified]] = {
            "optimizer": [self.optimizer] if self.optimizer else [],
            "loss": [self.loss] if self.loss else [],
            "metrics": self.metrics,
        }
        parts = [f"{what} {', '.join(map(_name, values))}" for what, values in named.items() if what in taken and values]
        return f"taken over from {self.path}, as it was compiled: {'; '.join(parts)}" if parts else ""


def compiled_settings(path: str) -> Compiled:
    """Return what a model in a file was compiled with.

    Parameters
    ----------
    path : path of a file that Keras has saved.

    Raises
    ------
    HeteroError
        If it cannot be read.
    """
    document = configuration_in(path)
    compiled = document.get("compile_config") if isinstance(document, Mapping) else None
    if not isinstance(compiled, Mapping):
        return Compiled(path)
    foreign: dict[str, str] = {}

    def identified(what: str, value: Any, room: Any, base: Any) -> Any:
        named = value.get("config") if isinstance(value, Mapping) and value.get("class_name") == "function" else value
        if isinstance(named, str) and (named == value or named in vars(room)):  # as Keras, which knows its functions by their names
            return named
        try:
            return plain_configuration(value, room, base)
        except ForeignObject as fault:
            foreign.setdefault(what, _clause(what, fault))
            return None

    losses, metrics = _leaves(compiled.get("loss")), _leaves(compiled.get("metrics"))
    loss = identified("loss", losses[0], keras.losses, keras.losses.Loss) if len(losses) == 1 else None
    kinds = [identified("metrics", metric, keras.metrics, keras.metrics.Metric) for metric in metrics]
    if compiled.get("weighted_metrics"):
        foreign.setdefault("metrics", "weighted metrics, which cannot be trained with")
    if any(weight not in (None, 1) for weight in _leaves(compiled.get("loss_weights"))):
        foreign.setdefault("loss", "loss weights, which no option gives")
    optimizer = compiled.get("optimizer")
    try:
        chosen = None if optimizer is None else _optimizer(optimizer)
    except ForeignObject as fault:
        foreign["optimizer"], chosen = _clause("optimizer", fault), None
    return Compiled(path, chosen, loss, tuple(kind for kind in kinds if kind is not None), foreign)


def take_over_optimizer(model: Any, compiled: Compiled, choice: OptimizerChoice, loss: Any) -> Any:
    """Return the optimizer of a compiled model with the steps and slots that its file holds, with which the model is compiled.

    Parameters
    ----------
    model : the model of the file.
    compiled : what it was compiled with.
    choice : its optimizer.
    loss : the loss to train with.
    """
    model.compile(optimizer=optimizer_of(choice), loss=loss)
    model.optimizer.build(model.trainable_variables)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a file of a model that was not trained has no slots
        model.load_weights(compiled.path)
    return model.optimizer


def _optimizer(entry: Any) -> dict[str, Any]:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("config"), Mapping):
        raise ForeignObject(value_text(entry), "is no class of keras.optimizers", "name one")
    rate = entry["config"].get("learning_rate")
    schedules = keras.optimizers.schedules
    planned = plain_configuration(rate, schedules, schedules.LearningRateSchedule) if isinstance(rate, Mapping) else None
    plain = {**entry, "config": {**entry["config"], **({} if planned is None else {"learning_rate": 0.0})}}
    checked = plain_configuration(plain, keras.optimizers, keras.optimizers.Optimizer)
    return checked if planned is None else {**checked, "config": {**checked["config"], "learning_rate": planned}}


def _clause(what: str, fault: ForeignObject) -> str:
    return f"the {what} {fault.named}, whose code no file may lead to"


def _leaves(value: Any) -> list[Any]:
    """Return losses or metrics, packed as Keras packs those of outputs, as a list."""
    if isinstance(value, Mapping) and "class_name" not in value:
        return [leaf for entry in value.values() for leaf in _leaves(entry)]
    if isinstance(value, (list, tuple)):
        return [leaf for entry in value for leaf in _leaves(entry)]
    return [] if value is None else [value]


def _name(value: Identified) -> str:
    return value if isinstance(value, str) else str(value["class_name"])
