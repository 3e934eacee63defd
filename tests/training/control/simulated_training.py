"""A simulated trainer: its engines take what a true profile predicts, with noise, on a clock of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hetero_mtf.devices.records import Device
from hetero_mtf.errors import UnsupportedError
from hetero_mtf.planning.choose import plan as make_plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.program.batch_arrays import BatchArrays, Result
from hetero_mtf.program.engine import Engine, Finished
from hetero_mtf.runtime.layer_trace import LayerTrace
from hetero_mtf.runtime.step_trace import StepTrace
from hetero_mtf.training.control.background import Background
from hetero_mtf.training.control.background import Finished as Done
from hetero_mtf.training.control.controller import Controller
from hetero_mtf.training.control.plan_in_force import PlanInForce
from hetero_mtf.training.control.step_call import StepCall
from tests.planning.networks import pair_net, profile_of
from tests.planning.refinement.simulated import SimulatedRunner, slower

GRAPH = pair_net(48, 48, 48)
PROFILE = profile_of(GRAPH, [1e6, 1e6], 1e-6)
BUILD_STEPS = 10  # seconds of a build, in steps of the first plan
DELAY = 0.3  # part of a step's seconds by which it is longer while something goes on beside it


class SimulatedBackground(Background):
    """Does work at once, and gives its result when the simulated seconds have gone by that it takes.

    Parameters
    ----------
    training : what it goes on beside.
    solve_s : seconds of a solution.
    """

    def __init__(self, training: SimulatedTraining, solve_s: float) -> None:
        super().__init__(training.runner.clock)
        self._training, self._solve_s = training, solve_s
        self._result: tuple[float, Done] | None = None

    @property
    def works(self) -> bool:
        return self._result is not None and self._training.runner.clock.now_s < self._result[0]

    def begin(self, work: Callable[[], Any]) -> None:
        start_s = self._training.runner.clock.now_s
        finished = self._timed(work)
        taken_s = self._training.build_s if isinstance(finished.result, SimulatedEngine) or finished.fault else self._solve_s
        self._training.runner.clock.now_s = start_s
        self._result = start_s + taken_s, finished._replace(seconds=taken_s)

    def poll(self, wait: bool = False) -> Done | None:
        if self._result is None or (self.works and not wait):
            return None
        finished, self._result = self._result[1], None
        return finished


class SimulatedEngine(Engine):
    """Takes steps under one plan.

    Parameters
    ----------
    plan : the plan.
    training : what it belongs to.
    """

    def __init__(self, plan: Plan, training: SimulatedTraining) -> None:
        self.plan, self._training, self.steps, self.closed = plan, training, 0, False

    def read(self) -> dict[str, np.ndarray]:
        return {}

    def write(self, values: Any) -> None:
        assert not self.closed

    def close(self) -> None:
        self.closed = True

    def advance(self, batch: BatchArrays, *_: Any) -> list[Finished]:
        assert not self.closed
        self._training.runner.running = [self.plan]
        self._training.spend(self.plan, building=self.steps == 0)
        self.steps += 1
        return [(batch, Result(1.0, (1.0,), None))]

    def advance_traced(self, batch: BatchArrays, *_: Any) -> tuple[list[Finished], StepTrace]:
        traced = self._training.runner.trace(self.plan)
        names = [device.name for device in PROFILE.cluster.devices]
        layers = tuple(LayerTrace(names[each.device], each.layer, each.step_pass, each.compute_s) for each in traced.layers)
        return [(batch, Result(1.0, (1.0,), None))], StepTrace(traced.step_s, (), (), layers)


class SimulatedTraining(PlanInForce):
    """Stands for the plan in force and a cluster.

    Parameters
    ----------
    noise : standard deviation of ln(seconds) of steps and traced passes.
    steps : steps of the run that are known; None where they are not.
    calibrated, truth : the profile that the plan is made from, and that of the devices.
    watches : whether steps are watched.
    """

    def __init__(
        self,
        noise: float = 0.0,
        steps: int | None = 1000,
        calibrated: Profile = PROFILE,
        truth: Profile = PROFILE,
        seed: int = 7,
        watches: bool = True,
    ) -> None:
        self.runner = SimulatedRunner(truth, noise)
        self.runner.generator = np.random.default_rng(seed)
        self.refused: Callable[[Plan], bool] = lambda plan: False
        self.penalty: Callable[[Plan], float] = lambda plan: 1.0
        self.step = 0
        self.engine: SimulatedEngine = SimulatedEngine(make_plan(calibrated), self)
        self.build_s = BUILD_STEPS * self.runner.true_s(self.engine.plan)
        self.background = SimulatedBackground(self, self.build_s / 4)
        self._begin(Controller(calibrated, self.plan, explores=False, is_rough=False, watches=watches, **self._beside), steps)

    @property
    def _beside(self) -> dict[str, Any]:
        """The clock, and what goes on beside steps."""
        return {"clock": self.runner.clock, "background": self.background}

    def _begin(self, controller: Controller, steps: int | None) -> None:
        self.controller = controller
        controller.speaks = False
        if steps is not None:
            controller.steps_ahead = lambda: steps - self.step

    @property
    def devices(self) -> Sequence[Device]:
        return PROFILE.cluster.devices

    @property
    def true_s(self) -> float:
        return self.runner.true_s(self.plan)

    def spend(self, plan: Plan, building: bool) -> None:
        start_s = self.runner.clock.now_s
        longer = self.penalty(plan) * (1 + DELAY * self.background.works)
        self.runner.step_s(plan)
        self.runner.clock.now_s = start_s + (self.runner.clock.now_s - start_s) * longer + building * self.build_s

    def beside(self, plan: Plan) -> SimulatedEngine:
        if self.refused(plan):
            raise UnsupportedError("it takes too much memory; use another plan")
        return SimulatedEngine(plan, self)

    def change(self, *factors: float) -> None:
        """Make every device take so many times as long as by `PROFILE`."""
        truth = PROFILE
        for device, factor in enumerate(factors):
            truth = slower(truth, device, factor)
        self.runner.costs = Costs(truth)

    def train(self, steps: int, batch_size: int | None = None) -> None:
        samples = np.zeros((self.plan.batch_size if batch_size is None else batch_size, 1))
        batch = BatchArrays((samples,), (samples,), (samples[:, 0],), (1.0,))
        for _ in range(steps):
            finished = self.controller.advance(self, StepCall(batch, self.step, {}, False))
            assert [each for each, _ in finished] == [batch]
            self.step += 1


def best_s(*factors: float) -> float:
    """Return the predicted step of the best plan for devices that take so many times as long as by `PROFILE`."""
    truth = PROFILE
    for device, factor in enumerate(factors):
        truth = slower(truth, device, factor)
    predicted = make_plan(truth).predicted
    assert predicted is not None
    return predicted.step_s
