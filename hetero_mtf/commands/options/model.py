"""The options that say which model a command takes: --model, --model-arg and --precision, which is Keras's dtype policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from hetero_mtf.commands.options.shared import Argument, Command
from hetero_mtf.commands.options.typed import named_once

PRECISIONS = ("float32", "float64", "mixed_bfloat16", "mixed_float16", "bfloat16")  # names of Keras's dtype policies


class RenamedOption(click.Option):
    """An option that still takes its name of an earlier release, which its help leaves out.

    Parameters
    ----------
    names : as for `click.Option`.
    earlier : the name of the earlier release, with its dashes.
    """

    def __init__(self, names: Sequence[str], earlier: str = "", **options: Any) -> None:
        super().__init__(names, **options)
        self.earlier = earlier

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Let the parser take the earlier name too."""
        super().add_to_parser(parser, ctx)
        parser.add_option(obj=self, opts=[self.earlier], dest=self.name, action="store", nargs=1)


def model_options(required: bool = True, stored: bool = False) -> Callable[[Command], Command]:
    """Return a decorator that adds --model, --model-arg and --precision, whose earlier name --dtype is still taken.

    Parameters
    ----------
    required : whether --model must be given.
    stored : whether the precision is stored with what the command reads.
    """

    def add(command: Command) -> Command:
        default = "that of the training" if stored else "float32, of a FILE.keras its own"
        kind = click.option(
            "--precision",
            cls=RenamedOption,
            earlier="--dtype",
            type=click.Choice(PRECISIONS),
            help=f"Keras's dtype policy of the model.  [default: {default}]",
        )
        text = "An argument of the model's function, the value a Python literal; may be repeated."
        argument = click.option("--model-arg", "model_arguments", type=Argument(), multiple=True, callback=named_once, help=text)
        form = "FILE.py:function | package.module:function | FILE.keras"
        model = click.option(
            "--model", required=required, metavar="MODEL", help=f"The function that returns the Keras model, or its file: {form}."
        )
        return model(argument(kind(command)))

    return add


def float_type(precision: str | None) -> str:
    """Return Keras's float type under a policy, of samples, losses and metrics: float64 under float64, else float32.

    Parameters
    ----------
    precision : one of `PRECISIONS`; None for the default.

    Examples
    --------
    >>> float_type("float64"), float_type("mixed_bfloat16"), float_type(None)
    ('float64', 'float32', 'float32')
    """
    return "float64" if precision == "float64" else "float32"
