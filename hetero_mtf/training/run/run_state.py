"""RunState: the counters of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hetero_mtf.program.loss_scale import LossScale, LossScaling


@dataclasses.dataclass(frozen=True)
class RunState:
    """What a run is at, apart from weights and slots.

    Parameters
    ----------
    step : steps taken; those that updated nothing, as a gradient overflowed in float16, do not count.
    seed : seed of dropout and shuffling.
    loss_scale : the loss scale of the next step, and how many steps updated nothing; None where losses are not scaled.
    position : the position in the data that training goes on from after a state was restored; None where it begins with the first epoch.
    notes : what else is saved with the state, a JSON object.
    """

    step: int
    seed: int
    loss_scale: LossScale | None = None
    position: Mapping[str, Any] | None = None
    notes: Mapping[str, Any] = dataclasses.field(default_factory=lambda: MappingProxyType({}))

    @property
    def batches(self) -> int:
        """Number of the next batch, by which numbers are drawn at random: those that updated nothing count."""
        return self.step + (0 if self.loss_scale is None else self.loss_scale.skipped)

    def after(self, finite: bool, scaling: LossScaling | None) -> RunState:
        """Return the state after a step.

        Parameters
        ----------
        finite : whether no gradient overflowed.
        scaling : how losses are scaled; None where they are not.
        """
        scale = self.loss_scale
        if scale is not None and scaling is not None:
            scale = scale.after(finite, scaling)
        return dataclasses.replace(self, step=self.step + finite, loss_scale=scale)
