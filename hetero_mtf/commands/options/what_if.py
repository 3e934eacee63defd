"""Options of a what-if: what differs from the measured profile."""

from __future__ import annotations

from typing import NamedTuple

import click

from hetero_mtf.commands.options.shared import Command

_TEXTS = {
    "--scale": ("DEVICE=FACTOR", "What if a device were this many times as fast, such as gpu:1=2; may be repeated."),
    "--add-like": ("DEVICE", "What if there were one more device like this one; may be repeated."),
    "--memory": ("DEVICE=BYTES", "What if a device had this much memory free, such as gpu:0=8GB; may be repeated."),
}


def what_if_options(command: Command) -> Command:
    """Add --scale, --add-like, --memory and --bandwidth."""
    text = "What if every link had this many times the bandwidth, such as x2."
    command = click.option("--bandwidth", metavar="FACTOR", help=text)(command)
    for name, (form, help_text) in reversed(_TEXTS.items()):
        command = click.option(name, multiple=True, metavar=form, help=help_text)(command)
    return command


class WhatIfTexts(NamedTuple):
    """The values of the options, which `parse_what_if` takes."""

    scale: tuple[str, ...]
    add_like: tuple[str, ...]
    memory: tuple[str, ...]
    bandwidth: str | None
    batch_size: int | None = None
