"""A simulated training that tries plans: steps, builds and solutions take seconds of a clock of their own."""

from __future__ import annotations

from hetero_mtf.planning.choose import plan as make_plan
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.training.control.controller import Controller
from tests.training.control.simulated_training import PROFILE, SimulatedEngine, SimulatedTraining


class SimulatedExploration(SimulatedTraining):
    """Stands for a trainer whose steps try plans.

    Parameters
    ----------
    rough, truth : the profile that the training begins with, and that of the devices.
    noise, steps, seed : as for `SimulatedTraining`.
    watches : whether steps are watched once no other plan promises to be faster.
    """

    def __init__(
        self,
        rough: Profile,
        truth: Profile = PROFILE,
        noise: float = 0.0,
        steps: int | None = 1000,
        seed: int = 7,
        watches: bool = True,
    ) -> None:
        super().__init__(noise, steps, rough, truth, seed)
        self.ended: list[tuple[Plan, Profile, bool]] = []
        first = make_plan(rough, strategy="single")
        self._engine = SimulatedEngine(first, self)
        self._begin(Controller(rough, first, watches=watches, ended=lambda *end: self.ended.append(end), **self._beside), steps)
