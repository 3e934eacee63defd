"""Options of what a model is trained for: its loss and its metrics, by Keras's identifiers."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import click

from hetero_mtf.commands.options.shared import Command

Identified: TypeAlias = "str | Mapping[str, Any]"  # an identifier of Keras, or a configuration that names a class and its options
_IDENTIFIER = r"[A-Za-z_]\w*(>[A-Za-z_]\w*)?"  # "package>Name" for what the model's file has registered with Keras
_NAMED = re.compile(rf"(?:(?P<output>[^=,\s]+)=)?(?P<name>{_IDENTIFIER})")
LOSS = "Loss by Keras's name, such as mse or categorical_focal_crossentropy, or OUTPUT=NAME; may be repeated, once an output."
METRICS = "Metrics by Keras's names, such as auc or OUTPUT=auc; may be repeated."


class LossName(click.ParamType):
    """A loss by one of Keras's identifiers, and the output that it is for, "" for the model's: mse, BinaryCrossentropy, head=huber."""

    name = "name or output=name"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> tuple[str, str]:
        """Return the output, "" where none is named, and the identifier."""
        if isinstance(value, tuple):
            return value
        match = _NAMED.fullmatch(str(value).strip())
        if match is None:
            self.fail(f"{value!r} is no name of a loss; write for instance mse, or OUTPUT=mse", parameter, context)
        return match["output"] or "", match["name"]

    def spelt(self, value: tuple[str, str]) -> str:
        """Return a loss as one would type it."""
        return _spelt(value)


class MetricNames(click.ParamType):
    """Identifiers of Keras metrics, separated by commas, each with the output that it is for, "" for the model's."""

    name = "name,name,..."

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> tuple[tuple[str, str], ...]:
        """Return pairs of an output and an identifier, each once."""
        if isinstance(value, tuple):
            return value
        matches = [_NAMED.fullmatch(part.strip()) for part in str(value).split(",")]
        names = tuple((match["output"] or "", match["name"]) for match in matches if match is not None)
        if len(names) < len(matches) or len(set(names)) < len(names):
            self.fail(f"{value!r} is no list of names that differ; write for instance accuracy,auc", parameter, context)
        return names

    def spelt(self, value: tuple[tuple[str, str], ...]) -> list[str]:
        """Return metrics as one would type them, one each."""
        return [_spelt(pair) for pair in value]


def _spelt(pair: tuple[str, str]) -> str:
    return f"{pair[0]}={pair[1]}" if pair[0] else pair[1]


@dataclasses.dataclass(frozen=True)
class ObjectiveChoice:
    """Loss and metrics that were chosen.

    Parameters
    ----------
    loss : an identifier of keras.losses, or a configuration; None for a guess.
    metrics : identifiers of keras.metrics, or configurations; none for those that go with the loss.
    loss_origin : what chose the loss, such as "set by --loss", for people.
    metrics_origin : what chose the metrics.
    outputs : names of outputs that they were given for.
    """

    loss: Identified | None = None
    metrics: tuple[Identified, ...] = ()
    loss_origin: str = "set by --loss"
    metrics_origin: str = "set by --metrics"
    outputs: tuple[str, ...] = ()

    @classmethod
    def given(cls, losses: Sequence[tuple[str, str]], metrics: Sequence[Sequence[tuple[str, str]]]) -> ObjectiveChoice:
        """Return what the command line names.

        Parameters
        ----------
        losses : values of --loss.
        metrics : values of --metrics.

        Raises
        ------
        click.UsageError
            If an output has two losses, or a metric is named twice.
        """
        outputs = [output for output, _ in losses]
        if len(set(outputs)) < len(outputs) or ("" in outputs and len(outputs) > 1):
            named = ", ".join(f"{output}={name}" if output else name for output, name in losses)
            raise click.UsageError(f"--loss is given as {named}; give one, or one as OUTPUT=NAME for each output")
        chosen = [pair for pairs in metrics for pair in pairs]
        if len(set(chosen)) < len(chosen):
            raise click.UsageError("--metrics names a metric twice; name each once")
        named_outputs = dict.fromkeys(output for output, _ in (*losses, *chosen) if output)
        return cls(losses[0][1] if losses else None, tuple(name for _, name in chosen), outputs=tuple(named_outputs))

    def over(self, other: ObjectiveChoice) -> ObjectiveChoice:
        """Return this choice, and for what it leaves open that of another.

        Parameters
        ----------
        other : such as the one stored with a state.
        """
        loss = (self.loss, self.loss_origin) if self.loss is not None else (other.loss, other.loss_origin)
        metrics = (self.metrics, self.metrics_origin) if self.metrics else (other.metrics, other.metrics_origin)
        return ObjectiveChoice(loss[0], metrics[0], loss[1], metrics[1], self.outputs)


def objective_options(stored: bool = False) -> Callable[[Command], Command]:
    """Return a decorator that adds --loss and --metrics.

    Parameters
    ----------
    stored : whether they are stored with the state that the command reads.
    """
    origin = "of the training" if stored else "of a compiled --model FILE.keras"
    guess = f"that {origin}, else guessed from the data and the model, and printed"
    accuracy = f"those {origin}, else accuracy; of targets that are numbers mean_absolute_error"

    def add(command: Command) -> Command:
        text = f"{METRICS}  [default: {accuracy}]"
        metrics = click.option("--metrics", type=MetricNames(), multiple=True, show_default=False, metavar="NAME,...", help=text)
        loss = click.option("--loss", type=LossName(), multiple=True, metavar="NAME", help=f"{LOSS}  [default: {guess}]")
        return loss(metrics(command))

    return add
