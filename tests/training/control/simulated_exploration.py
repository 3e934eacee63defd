"""A simulated training that tries plans: steps, builds and solutions take seconds of a clock of their own."""

from __future__ import annotations

from collections.abc import Callable

from hetero_mtf.planning.choose import plan as make_plan
from hetero_mtf.planning.exploration.records import Learnt
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.training.control.calibration_between import CalibrationBetween
from hetero_mtf.training.control.controller import Controller
from tests.training.control.simulated_training import PROFILE, SimulatedEngine, SimulatedTraining


class SimulatedExploration(SimulatedTraining):
    """Stands for a trainer whose steps try plans.

    Parameters
    ----------
    rough, truth : the profile that the training begins with, and that of the devices.
    noise, steps, seed : as for `SimulatedTraining`.
    watches : whether steps are watched once no other plan promises to be faster.
    calibrates : makes what measures curves between steps; None for nothing.
    """

    def __init__(
        self,
        rough: Profile,
        truth: Profile = PROFILE,
        noise: float = 0.0,
        steps: int | None = 1000,
        seed: int = 7,
        watches: bool = True,
        calibrates: Callable[[SimulatedExploration], CalibrationBetween] | None = None,
    ) -> None:
        super().__init__(noise, steps, rough, truth, seed)
        self.ended: list[Learnt] = []
        first = make_plan(rough, strategy="single")
        self.engine = SimulatedEngine(first, self)
        self.calibration = None if calibrates is None else calibrates(self)
        own = {"watches": watches, "calibration": self.calibration, "learnt": self.ended.append}
        self._begin(Controller(rough, first, **own, **self._beside), steps)  # type: ignore[arg-type]
