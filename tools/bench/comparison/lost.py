"""What keeps a split from the ideal: compute, communication and idle time. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

PARTS = ("compute_s", "communication_s", "idle_s")


def ideal_s(alone_s: Sequence[float]) -> float:
    """Return 1 / sum over devices of 1 / T_d, which no communication and no idle time can reach.

    Parameters
    ----------
    alone_s : (devices,) seconds per step of each device alone.

    Examples
    --------
    >>> round(ideal_s([1.0, 2.0]), 3)
    0.667
    """
    return 1 / sum(1 / seconds for seconds in alone_s)


def lost(parts: Sequence[Mapping[str, Any]], alone_s: Sequence[float], step_s: float) -> dict[str, float]:
    """Return which part of a step goes into compute beyond the ideal, communication and idle time; they sum to 1 - efficiency.

    Parameters
    ----------
    parts : (devices,) compute_s, communication_s and idle_s of each device in the step; a device that is left out waits.
    alone_s : (devices,) seconds per step of each device alone.
    step_s : seconds of the step.

    Returns
    -------
    compute_s, communication_s, idle_s -> part of the step.

    Notes
    -----
    Devices are weighted by speed: w_d = ideal / T_d, and sum w_d = 1. As compute + communication + idle time is the step for each,
    step - ideal = (sum w_d compute_d - ideal) + sum w_d communication_d + sum w_d idle_d. The first is work that several
    devices do, or do slower in small pieces than whole; it is negative where pieces are faster.

    Examples
    --------
    >>> first = {"compute_s": 0.8, "communication_s": 0.2, "idle_s": 0.0}
    >>> second = {"compute_s": 0.7, "communication_s": 0.2, "idle_s": 0.1}
    >>> lost([first, second], [1.5, 1.5], 1.0)
    {'compute_s': 0.0, 'communication_s': 0.2, 'idle_s': 0.05}
    """
    ideal = ideal_s(alone_s)
    sums = {name: sum(ideal / alone * part[name] for part, alone in zip(parts, alone_s, strict=True)) for name in PARTS}
    sums["compute_s"] -= ideal
    return {name: round(value / step_s, 12) for name, value in sums.items()}


def on_all(parts: Sequence[Mapping[str, Any]], devices: Sequence[str], step_s: float) -> list[dict[str, Any]]:
    """Return the parts of every device of a cluster; one that a plan leaves out waits for the whole step.

    Parameters
    ----------
    parts : parts of the devices that take part.
    devices : names of all devices.
    step_s : seconds of the step.
    """
    known = {str(part["device"]): dict(part) for part in parts}
    return [known.get(name, {"device": name, "compute_s": 0.0, "communication_s": 0.0, "idle_s": step_s}) for name in devices]
