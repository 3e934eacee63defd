"""A simulated training that tries plans: steps, builds and solutions take seconds of a clock of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hetero_mtf.planning.choose import plan as make_plan
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.training.exploration.background import Background, Finished
from hetero_mtf.training.exploration.controller import Controller
from tests.training.rebalancing.simulated_training import PROFILE, SimulatedEngine, SimulatedTraining

DELAY = 0.3  # part of a step's seconds by which it is longer while something goes on beside it


class SimulatedBackground(Background):
    """Does work at once, and gives its result when the simulated seconds have gone by that it takes.

    Parameters
    ----------
    training : what it goes on beside.
    solve_s : seconds of a solution.
    """

    def __init__(self, training: SimulatedExploration, solve_s: float) -> None:
        super().__init__(training.runner.clock)
        self._training, self._solve_s = training, solve_s
        self._result: tuple[float, Finished] | None = None

    @property
    def works(self) -> bool:
        return self._result is not None and self._training.runner.clock.now_s < self._result[0]

    def begin(self, work: Callable[[], Any]) -> None:
        start_s = self._training.runner.clock.now_s
        finished = self._timed(work)
        taken_s = self._training.build_s if isinstance(finished.result, SimulatedEngine) or finished.fault else self._solve_s
        self._training.runner.clock.now_s = start_s
        self._result = start_s + taken_s, finished._replace(seconds=taken_s)

    def poll(self, wait: bool = False) -> Finished | None:
        if self._result is None or (self.works and not wait):
            return None
        finished, self._result = self._result[1], None
        return finished


class WritableEngine(SimulatedEngine):
    """An engine that takes the values of another one."""

    def write(self, values: Any) -> None:
        assert not self.closed


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
        self._engine = WritableEngine(first, self)
        self.background = SimulatedBackground(self, self.build_s / 4)
        own = lambda *end: self.ended.append(end), self.runner.clock, self.background, watches  # noqa: E731
        self.rebalancer = Controller(rough, first, *own)  # type: ignore[assignment]
        self.rebalancer.speaks = False
        if steps is not None:
            self.rebalancer.steps_ahead = lambda: steps - self.step
        self.penalty = lambda plan: 1 + DELAY * self.background.works

    def _make_engine(self, plan: Plan, values: Any, seed: int) -> SimulatedEngine:
        super()._make_engine(plan, values, seed)
        return WritableEngine(plan, self)

    def _first_values(self) -> dict[str, Any]:
        return {}
