"""Options that say what is supposed to be otherwise than measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from hetero_mtf.planning.profile.what_if import WhatIf

Command = TypeVar("Command", bound=Callable[..., Any])
_TEXTS = {
    "--scale": ("DEVICE=FACTOR", "What if a device were so many times as fast, such as gpu:1=2; may be repeated."),
    "--add-like": ("DEVICE", "What if there were one more device like this one; may be repeated."),
    "--memory": ("DEVICE=BYTES", "What if a device had this much memory free, such as gpu:0=8GB; may be repeated."),
}


def what_if_options(command: Command) -> Command:
    """Add --scale, --add-like, --memory and --bandwidth."""
    text = "What if every link had so many times the bandwidth, such as x2."
    command = click.option("--bandwidth", metavar="FACTOR", help=text)(command)
    for name, (form, words) in reversed(_TEXTS.items()):
        command = click.option(name, multiple=True, metavar=form, help=words)(command)
    return command


def what_if(
    scale: tuple[str, ...], add_like: tuple[str, ...], memory: tuple[str, ...], bandwidth: str | None, batch_size: int | None = None
) -> WhatIf:
    """Return what the options suppose.

    Parameters
    ----------
    scale, add_like, memory, bandwidth : as they were typed.
    batch_size : samples a step that may be another number than measured; None for that of the profile.

    Raises
    ------
    PlanError
        If one of them is not of its form.
    """
    from hetero_mtf.planning.profile.what_if import WhatIf, device_and_bytes, device_and_number, factor_of

    speeds = tuple(device_and_number(text) for text in scale)
    pools = tuple(device_and_bytes(text) for text in memory)
    return WhatIf(speeds, add_like, factor_of(bandwidth) if bandwidth is not None else 1.0, pools, batch_size)
