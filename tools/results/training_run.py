"""What the training scripts have in common: the options that they choose themselves, and the run of one command after another."""

from __future__ import annotations

import pathlib
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

import click

from hetero_mtf.commands.main import run
from hetero_mtf.commands.process.run_files import beside

OWN_OPTIONS = ("--save", "--output", "--log-dir", "--measured")
FURTHER = {"ignore_unknown_options": True, "show_default": True}
LOGS, STATE, MODEL = "logs", "state.npz", "model.keras"


def run_command(*words: object) -> None:
    """Show and run a command of hetero-mtf in this process; a failure, which it has told of, ends the program with its exit status.

    Parameters
    ----------
    words : the command and its arguments.

    Raises
    ------
    SystemExit
        If the command fails.
    """
    arguments = [str(word) for word in words]
    click.echo(f"\n$ {shlex.join(['hetero-mtf', *arguments])}")
    status = run(arguments)
    if status:
        raise SystemExit(status)


def check_further(further: Iterable[str]) -> None:
    """Refuse options for `hetero-mtf train` that a script chooses itself.

    Parameters
    ----------
    further : words that follow the script's own options.

    Raises
    ------
    click.UsageError
        If one is among them.
    """
    chosen = sorted({word.partition("=")[0] for word in further} & set(OWN_OPTIONS))
    if chosen:
        raise click.UsageError(f"{', '.join(chosen)} cannot be given here; the files are written to --folder, which you may choose")


def saving(folder: pathlib.Path) -> list[str]:
    """Return the options by which a training leaves in a folder what its summary is read from; times of an earlier one are removed.

    Parameters
    ----------
    folder : of the training; made where it is missing.

    Raises
    ------
    click.UsageError
        If it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        beside(folder / STATE, "measured").unlink(missing_ok=True)
    except OSError as fault:
        raise click.UsageError(f"--folder {folder} cannot be written to: {fault.strerror or fault}; name another") from fault
    return ["--save", str(folder / STATE), "--output", str(folder / MODEL), "--log-dir", str(folder / LOGS)]


def unless_given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those values of options that are not given on the command line that is being read.

    Parameters
    ----------
    values : option -> value.
    """
    context, given = click.get_current_context(), click.core.ParameterSource.COMMANDLINE
    return {name: value for name, value in values.items() if context.get_parameter_source(name) != given}
