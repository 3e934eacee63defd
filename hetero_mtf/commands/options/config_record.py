"""The options of a command as they were used, in a file that --config takes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click
import yaml

from hetero_mtf.commands.options.config_file import HEADER, options_of
from hetero_mtf.commands.options.shared import used_limits
from hetero_mtf.json_file import replace_file


def used_options(context: click.Context, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a command by their names without dashes, those left open or without a value left out.

    Parameters
    ----------
    context : of the command, whose parameters were read.
    changes : name without dashes -> what was used in its place; None leaves an option out.
    """
    values = {**context.params, **used_limits(context)}
    named = {name: _plain(option, values.get(str(option.name))) for name, option in options_of(context.command).items()}
    return {name: value for name, value in {**named, **changes}.items() if value is not None and value != []}


def save_config(path: str | os.PathLike[str], options: Mapping[str, Any]) -> None:
    """Write options to a YAML file.

    Parameters
    ----------
    path : path of the file to write or replace.
    options : name -> value, as `used_options` returns them.

    Raises
    ------
    HeteroError
        If it cannot be written.
    """
    with replace_file(path) as file:
        file.write(f"{HEADER}{yaml.safe_dump(dict(options), sort_keys=False, allow_unicode=True)}".encode())


def _plain(option: click.Option, value: Any) -> Any:
    """Return a parameter's value as a file holds it."""
    spelt = getattr(option.type, "spelt", lambda each: each)
    if value is None:
        return None
    if not option.multiple:
        return spelt(value)
    texts = [spelt(each) for each in value]
    return [text for each in texts for text in (each if isinstance(each, list) else [each])]
