"""What was measured of a plan: seconds of its steps, and of each layer's passes in those that were traced."""

from __future__ import annotations

import dataclasses
import statistics
from typing import NamedTuple, Protocol

from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.spread import median_and_spread


class LayerSeconds(NamedTuple):
    """Compute of one pass of one layer on one device in a traced step.

    Parameters
    ----------
    device : index of the device in the cluster; of several processors on one TensorFlow device the first.
    layer : index of the layer.
    step_pass : "forward", "backward" or "update".
    compute_s : seconds.
    """

    device: int
    layer: int
    step_pass: str
    compute_s: float


@dataclasses.dataclass(frozen=True)
class TracedStep:
    """One traced step.

    Parameters
    ----------
    step_s : seconds of the whole step; tracing makes it a little longer.
    layers : compute of all layers on all devices.
    """

    step_s: float
    layers: tuple[LayerSeconds, ...]


@dataclasses.dataclass(frozen=True)
class PlanRun:
    """A plan that was run.

    Parameters
    ----------
    plan : the plan.
    step_s : seconds a step, one value a round.
    traces : steps that were traced.
    predicted_s : seconds that were predicted just before it was run, by the profile as corrected till then.
    first_predicted_s : seconds that the calibrated profile predicts, without any correction.
    """

    plan: Plan
    step_s: tuple[float, ...]
    traces: tuple[TracedStep, ...]
    predicted_s: float
    first_predicted_s: float

    @property
    def median_s(self) -> float:
        """Median seconds of a step."""
        return statistics.median(self.step_s)

    @property
    def spread(self) -> float:
        """Inter-quartile range of the rounds, relative to the median; 0 of a single round."""
        return median_and_spread(self.step_s)[1]


class PlanRunner(Protocol):
    """Runs plans on a live cluster; what it trains is not the user's model."""

    def start(self, plan: Plan) -> None:
        """Build a plan and take its first steps, which do not count.

        Parameters
        ----------
        plan : a plan for the network and cluster.

        Raises
        ------
        HeteroError
            If it cannot be built, or a worker dies.
        """

    def step_s(self, plan: Plan) -> float:
        """Return the seconds of a step, the mean over one round.

        Parameters
        ----------
        plan : one that was started.
        """

    def trace(self, plan: Plan) -> TracedStep:
        """Return a traced step.

        Parameters
        ----------
        plan : one that was started.
        """

    def stop(self, plan: Plan) -> None:
        """Free what a plan holds on the cluster.

        Parameters
        ----------
        plan : one that was started.
        """
