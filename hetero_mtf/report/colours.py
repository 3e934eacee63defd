"""The colours of a page, in light and dark: devices by hue, what a device does by lightness, so that neither is taken for the other."""

from __future__ import annotations

from collections.abc import Iterator

from hetero_mtf.planning.schedule.clock_table import BACKWARD, FORWARD
from hetero_mtf.planning.schedule.simulator import UPDATE

TRANSFER = "transfer"
DEVICES, REPLICATED, STRIPE = 8, "replicated", "idle-stripe"
STATES = ("compute", "communication", "idle")

_DARK_INK, _LIGHT_INK = "#14181d", "#ffffff"
# Hues of about one lightness, in an order in which neighbours are told apart without red against green (after Okabe and Ito).
_HUES = ("#1f6fb2", "#b35900", "#147a63", "#96397b", "#5b4bb3", "#a63434", "#6a6400", "#1f6b7a")
# name -> (colour, text on it), first in light, then in dark. Compute is neutral and its passes differ by lightness; communication is
# the one bright hue; idle time is hatched.
_LIGHT = {
    "compute": ("#3b4350", _LIGHT_INK),
    "communication": ("#f0b429", _DARK_INK),
    "idle": ("#e6e9ed", _DARK_INK),
    STRIPE: ("#b9c2cc", _DARK_INK),
    FORWARD: ("#9aa7b8", _DARK_INK),
    BACKWARD: ("#3b4350", _LIGHT_INK),
    UPDATE: ("#5c6b7d", _LIGHT_INK),
    TRANSFER: ("#f0b429", _DARK_INK),
    REPLICATED: ("#d9d4ec", _DARK_INK),
}
_DARK = {
    "compute": ("#d3dae3", _DARK_INK),
    "communication": ("#f0b429", _DARK_INK),
    "idle": ("#252c35", _LIGHT_INK),
    STRIPE: ("#4d5967", _LIGHT_INK),
    FORWARD: ("#7d8b9c", _DARK_INK),
    BACKWARD: ("#d3dae3", _DARK_INK),
    UPDATE: ("#a7b3c2", _DARK_INK),
    TRANSFER: ("#f0b429", _DARK_INK),
    REPLICATED: ("#4b4563", _LIGHT_INK),
}


def device_colour(index: int) -> str:
    """Return the name of a device's colour; every eighth device has the same.

    Parameters
    ----------
    index : which device of a picture.
    """
    return f"device{index % DEVICES}"


def colours(dark: bool = False) -> dict[str, tuple[str, str]]:
    """Return name -> (colour, colour of text on it).

    Parameters
    ----------
    dark : whether the page is dark.
    """
    devices = {device_colour(index): (hue, _LIGHT_INK) for index, hue in enumerate(_HUES)}
    return {**devices, **(_DARK if dark else _LIGHT)}


def declarations(dark: bool = False) -> str:
    """Return the colours as CSS variables: --NAME, and --on-NAME of text on it.

    Parameters
    ----------
    dark : whether the page is dark.
    """
    return " ".join(f"--{name}: {colour}; --on-{name}: {ink};" for name, (colour, ink) in colours(dark).items())


def rules() -> Iterator[str]:
    """Yield a CSS rule a colour: what has its name as a class is filled with it; idle time is hatched."""
    for name in colours():
        yield f".fill-{name} {{ background: var(--{name}); color: var(--on-{name}); }}"
    yield ".fill-idle { background: repeating-linear-gradient(135deg, var(--idle) 0 4px, var(--idle-stripe) 4px 7px); }"
