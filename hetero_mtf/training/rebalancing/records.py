"""What rebalancing sees, decides and does, as records."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from hetero_mtf.planning.plan.plan import Plan


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
class Decision:
    """Whether training goes on under another plan.

    Parameters
    ----------
    step : number of steps taken before it.
    changes : the devices that have changed.
    moves : whether it does.
    reason : why, as text.
    before, after : the plan in force, and the best other one, None where none was looked for or there is none.
    before_s : measured seconds of a step under the plan in force.
    expected_s : seconds of a step expected under the other plan; 0 without one.
    steps_left : steps that the gain is expected for.
    cost_s : seconds that the move is expected to take.
    """

    step: int
    changes: tuple[DeviceChange, ...]
    moves: bool
    reason: str
    before: Plan
    before_s: float
    steps_left: int
    cost_s: float
    after: Plan | None = None
    expected_s: float = 0.0

    @property
    def gain_s(self) -> float:
        """Seconds that the other plan is expected to save over the steps left, without the cost of the move."""
        return (self.before_s - self.expected_s) * self.steps_left if self.after is not None else 0.0


@dataclasses.dataclass(frozen=True)
class Move:
    """A move to another plan.

    Parameters
    ----------
    step : number of steps taken before it.
    reason : which device has changed, as text.
    before, after : the plans.
    before_s : measured seconds of a step before it, after the change.
    expected_s : seconds of a step that were expected of the new plan.
    taken_s : seconds that it took: reading the values, building, and what the first step took longer.
    """

    step: int
    reason: str
    before: Plan
    after: Plan
    before_s: float
    expected_s: float
    taken_s: float
