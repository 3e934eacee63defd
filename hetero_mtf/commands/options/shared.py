"""Options that several commands share."""

from __future__ import annotations

import ast
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from hetero_mtf.planning.layout.records import COLLECTIVES
from hetero_mtf.planning.names import STRATEGY_NAMES
from hetero_mtf.planning.refinement.limits import TIME_LIMIT_S

Command = TypeVar("Command", bound=Callable[..., Any])
OPTIMIZERS = {"sgd": 0.01, "adam": 0.001, "adamw": 0.001}  # with the learning rate each starts from, Keras's own
DECAYS = ("none", "cosine")
STRATEGIES = ("auto", *STRATEGY_NAMES)
MANUAL = ("filters", "batch", "space", "hybrid")  # strategies that --shares go with
BATCH_SIZE = 64
LIMITS = {"worker_timeout": "worker_timeout_s", "wait": "wait_s", "spare": "spare"}  # option of --cluster -> parameter of `Cluster`
_KEPT = "hetero_mtf.cluster."  # what a command keeps them by


class FiniteRange(click.FloatRange):
    """A range of floats without nan and infinity, which pass through or beside every bound."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        """Return the number."""
        number: float = super().convert(value, parameter, context)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", parameter, context)
        return number


class Budget(FiniteRange):
    """Seconds above zero, or inf for no limit."""

    def __init__(self) -> None:
        super().__init__(0, min_open=True)

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        """Return the seconds."""
        return math.inf if str(value) == "inf" else super().convert(value, parameter, context)


class RenamedChoice(click.Choice):
    """A choice that still takes the names of an earlier release, which its help leaves out.

    Parameters
    ----------
    choices : the names to choose from.
    earlier : name of the earlier release -> its name now.
    """

    def __init__(self, choices: Sequence[str], earlier: Mapping[str, str]) -> None:
        super().__init__(choices)
        self._earlier = earlier

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> str:
        """Return the chosen name."""
        return super().convert(self._earlier.get(value, value), parameter, context)


class Argument(click.ParamType):
    """An argument of a model function: name=value, the value a Python literal."""

    name = "name=value"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> tuple[str, Any]:
        """Return the name and the value."""
        name, equals, text = str(value).partition("=")
        if not equals or not name.isidentifier():
            self.fail(f"{value!r} is not of the form name=value", parameter, context)
        try:
            return name, ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            examples = "classes=10, batch_norm=True or, with quotes that reach the program, kind='small'"
            self.fail(f"{text!r} is no Python literal; write for instance {examples}", parameter, context)

    def spelt(self, value: tuple[str, Any]) -> str:
        """Return an argument as one would type it."""
        return f"{value[0]}={value[1]!r}"


class Shares(click.ParamType):
    """Relative shares, separated by commas."""

    name = "number,number,..."

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> tuple[float, ...]:
        """Return the shares as numbers."""
        try:
            return tuple(float(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of numbers such as 70,25,5", parameter, context)


class Three(click.ParamType):
    """Three numbers with commas between, or one for all three axes."""

    name = "number or number,number,number"
    takes_list = True  # in a file of options

    def __init__(self, kind: type[int] | type[float]) -> None:
        self._kind = kind

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> tuple[Any, ...]:
        """Return the three numbers."""
        try:
            numbers = tuple(self._kind(part) for part in str(value).split(","))
        except ValueError:
            numbers = ()
        if len(numbers) not in (1, 3):
            what = "whole numbers, such as 64 or 48,56,48" if self._kind is int else "numbers, such as 2 or 1,1,1.5"
            self.fail(f"{value!r} is neither one nor three {what}", parameter, context)
        return numbers * (3 // len(numbers))

    def spelt(self, value: tuple[Any, ...]) -> list[Any]:
        """Return the numbers as a file of options holds them."""
        return list(value)


@dataclasses.dataclass(frozen=True)
class OptimizerChoice:
    """An optimizer as given on the command line.

    Parameters
    ----------
    name : "sgd", "adam" or "adamw".
    learning_rate : None for Keras's default.
    momentum : of SGD; 0 for none.
    decay : "none" or "cosine": how the learning rate falls, to zero at the end of training.
    configuration : class and options of another optimizer of Keras, whose learning rate is its own unless one is given.
    """

    name: str = "sgd"
    learning_rate: float | None = None
    momentum: float = 0.0
    decay: str = "none"
    configuration: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.momentum and (self.name != "sgd" or self.configuration is not None):
            raise click.UsageError(f"--momentum goes with --optimizer sgd, not with {self.name}")


def cluster_option(command: Command) -> Command:
    """Add --cluster, --worker-timeout, --wait and --spare."""
    forms = "local[:gpu:0,gpu:1] | emulate:1.0,0.5[:compute] | emulate:1.0@avx512,1.0@avx2 | slurm | tf_config | hosts:HOST:PORT,..."
    text = "Time without an answer after which a worker counts as lost; a long step is none.  [default: 30]"
    waited = "Time to wait for workers that are not there yet.  [default: 30]"
    more = "Workers that need not be there, the last ones first: begin without those that are not.  [default: 0]"
    kept: dict[str, Any] = {"expose_value": False, "callback": _keep}
    timeout = click.option("--worker-timeout", type=FiniteRange(0, min_open=True), metavar="SECONDS", help=text, **kept)
    wait = click.option("--wait", type=FiniteRange(0), metavar="SECONDS", help=waited, **kept)
    spare = click.option("--spare", type=click.IntRange(0), metavar="COUNT", help=more, **kept)
    return click.option("--cluster", default="local", metavar="CLUSTER", help=f"Devices: {forms}.")(timeout(wait(spare(command))))


def collective_option(command: Command) -> Command:
    """Add --collective."""
    text = "Method of every all-reduce, where links allow it.  [default: the plan's, the cheapest for each size]"
    return click.option("--collective", type=click.Choice(COLLECTIVES["all_reduce"]), help=text)(command)


def optimizer_options(compiled: bool = False) -> Callable[[Command], Command]:
    """Return a decorator that adds --optimizer and --momentum.

    Parameters
    ----------
    compiled : whether the optimizer of a compiled --model FILE.keras is taken where none is named.
    """
    text = "Optimizer.  [default: that of a compiled --model FILE.keras, else sgd]" if compiled else "Optimizer."

    def add(command: Command) -> Command:
        momentum = click.option("--momentum", type=FiniteRange(0, 1, max_open=True), default=0.0, help="Momentum of SGD.")
        name = click.option("--optimizer", type=click.Choice(list(OPTIMIZERS)), default=None if compiled else "sgd", help=text)
        return name(momentum(command))

    return add


def learning_rate_option(command: Command) -> Command:
    """Add --learning-rate and --decay."""
    defaults = ", ".join(f"{rate:g} for {name}" for name, rate in OPTIMIZERS.items())
    positive = FiniteRange(0, min_open=True)
    decay = click.option("--decay", type=click.Choice(DECAYS), default="none", help="How it falls, to zero after the last epoch.")
    return click.option("--learning-rate", type=positive, show_default=defaults, help="Learning rate.")(decay(command))


def seed_option(command: Command) -> Command:
    """Add --seed."""
    text = "Seed of initial weights, shuffling and dropout."
    return click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, help=text)(command)


def budget_option(command: Command) -> Command:
    """Add --budget."""
    text = "Time calibration may take; inf for a thorough one.  [default: 45, more for a large network]"
    return click.option("--budget", type=Budget(), metavar="SECONDS", help=text)(command)


def refine_options(default: bool) -> Callable[[Command], Command]:
    """Return a decorator that adds --refine and --refine-time.

    Parameters
    ----------
    default : whether plans are refined unless --no-refine is given.
    """
    text = "Run steps of the plan and of others that promise as much, and take the one with the best measured step."
    limit = (
        f"Seconds after which no further plan is tried.  [default: {TIME_LIMIT_S:g}{', or 5 % of the training if that is less' * default}]"
    )

    def add(command: Command) -> Command:
        seconds = click.option("--refine-time", type=FiniteRange(0), metavar="SECONDS", help=limit)
        return click.option("--refine/--no-refine", default=default, help=text)(seconds(command))

    return add


def used_limits(context: click.Context) -> dict[str, Any]:
    """Return what `cluster_option` adds beside --cluster: each limit by the name of its option, None for the default.

    Parameters
    ----------
    context : of a command with `cluster_option`.
    """
    return {name: context.meta.get(f"{_KEPT}{name}") for name in LIMITS}


def _keep(context: click.Context, parameter: click.Parameter, value: float | None) -> None:
    context.meta[f"{_KEPT}{parameter.name}"] = value


def arguments(pairs: tuple[tuple[str, Any], ...]) -> Mapping[str, Any]:
    """Return the arguments of a model function by name."""
    return dict(pairs)
