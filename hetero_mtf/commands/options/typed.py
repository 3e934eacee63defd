"""What is typed on the command line itself: entries that contradict each other, options without effect, and those of a record."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click
from click.core import ParameterSource


def named_once(context: click.Context, parameter: click.Parameter, pairs: Sequence[tuple[str, Any]]) -> Sequence[tuple[str, Any]]:
    """Return the (name, value) pairs of an option that may be repeated; refuse a name with several values. It is a callback of click.

    Parameters
    ----------
    context, parameter : of click.
    pairs : what was typed.

    Raises
    ------
    click.UsageError
        If a name has two values.
    """
    check_named_once(max(parameter.opts, key=len), pairs, repr)
    return pairs


def check_named_once(option: str, pairs: Iterable[tuple[str, Any]], text: Callable[[Any], str] = str) -> None:
    """Refuse a name with several values, of which all but the last would be dropped.

    Parameters
    ----------
    option : the option, with its dashes.
    pairs : names and values.
    text : how a value is written in the message.

    Raises
    ------
    click.UsageError
        If there is one.
    """
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(text(value))
    repeated = [f"{name} as {' and '.join(texts)}" for name, texts in values.items() if len(texts) > 1]
    if repeated:
        raise click.UsageError(f"{option} gives {', '.join(repeated)}; give each once")


def typed_options(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of a command's options that are on its command line, as they are typed; what a file of options holds is not.

    Parameters
    ----------
    names : the options' names in Python.
    """
    context = click.get_current_context(silent=True)
    if context is None:
        return ()
    spelt = {str(option.name): max(option.opts, key=len) for option in context.command.params}
    return tuple(spelt[name] for name in names if context.get_parameter_source(name) is ParameterSource.COMMANDLINE)


def refuse_unused(names: Iterable[str], reason: str) -> None:
    """Refuse typed options that would have no effect.

    Parameters
    ----------
    names : the options' names in Python.
    reason : why they have none, and what to do.

    Raises
    ------
    click.UsageError
        If one is typed.
    """
    options = typed_options(names)
    if options:
        raise click.UsageError(f"{' and '.join(options)} would have no effect: {reason}")


def taken_fields(record: type[Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the options that are fields of a record, out of all that a command was given, and leave the others there.

    Parameters
    ----------
    record : a dataclass.
    given : name -> value; changed.
    """
    return {field.name: given.pop(field.name) for field in dataclasses.fields(record) if field.name in given}
