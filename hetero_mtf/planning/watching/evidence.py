"""What steps and traces show of devices that have changed, as records."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping


@dataclasses.dataclass(frozen=True)
class Evidence:
    """What steps and traces show of a change.

    Parameters
    ----------
    levels : device -> ln of how many times as long its layers take as in the reference; of all devices.
    changed : those of the devices that have changed.
    step_s : median seconds of the present steps.
    reference_s : seconds of a step in the reference: the plan's own earlier steps, or its prediction.
    spread : how far either is from its usual value, as a part of it.
    """

    levels: Mapping[int, float]
    changed: tuple[int, ...]
    step_s: float
    reference_s: float
    spread: float = 0.0


@dataclasses.dataclass(frozen=True)
class DeviceChange:
    """A device that has changed.

    Parameters
    ----------
    device : its name.
    times : how many times as long it takes as before; below 1 for one that became faster.
    """

    device: str
    times: float


@dataclasses.dataclass(frozen=True)
class ChangeAt:
    """When devices were found to have changed.

    Parameters
    ----------
    step : number of steps taken before.
    devices : the devices.
    """

    step: int
    devices: tuple[DeviceChange, ...]


def change_text(changes: Iterable[DeviceChange]) -> str:
    """Return which devices have changed, as text.

    Parameters
    ----------
    changes : the devices.

    Examples
    --------
    >>> change_text([DeviceChange("worker:1", 2.5), DeviceChange("worker:2", 0.5)])
    'worker:1 became 2.50 times as slow and worker:2 became 2.00 times as fast'
    """
    return " and ".join(
        f"{each.device} became {each.times:.2f} times as slow"
        if each.times > 1
        else f"{each.device} became {1 / each.times:.2f} times as fast"
        for each in changes
    )
