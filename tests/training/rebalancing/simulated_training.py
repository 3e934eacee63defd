"""A simulated trainer: its engines take what a true profile predicts, with noise, on a clock of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.planning.choose import plan as make_plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.program.batch_arrays import BatchArrays, Result
from hetero_mtf.program.engine import Finished
from hetero_mtf.runtime.layer_trace import LayerTrace
from hetero_mtf.runtime.step_trace import StepTrace
from hetero_mtf.training.rebalancing.rebalancer import Rebalancer
from hetero_mtf.training.rebalancing.step_call import StepCall
from tests.planning.networks import pair_net, profile_of
from tests.planning.refinement.simulated import SimulatedRunner, slower

GRAPH = pair_net(48, 48, 48)
PROFILE = profile_of(GRAPH, [1e6, 1e6], 1e-6)
BUILD_STEPS = 10  # seconds of a build, in steps of the first plan


class SimulatedEngine:
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


class SimulatedTraining:
    """Stands for a trainer and its cluster.

    Parameters
    ----------
    noise : standard deviation of ln(seconds) of steps and traced passes.
    steps : steps of the run that are known; None where they are not.
    calibrated, truth : the profile that the plan is made from, and that of the devices.
    """

    def __init__(
        self, noise: float = 0.0, steps: int | None = 1000, calibrated: Profile = PROFILE, truth: Profile = PROFILE, seed: int = 7
    ) -> None:
        self.runner = SimulatedRunner(truth, noise)
        self.runner.generator = np.random.default_rng(seed)
        self.refused: Callable[[Plan], bool] = lambda plan: False
        self.penalty: Callable[[Plan], float] = lambda plan: 1.0
        self.step, self._seed, self._cluster = 0, 0, PROFILE.cluster
        self._engine = SimulatedEngine(make_plan(calibrated), self)
        self.build_s = BUILD_STEPS * self.runner.true_s(self._engine.plan)
        self.rebalancer = Rebalancer(calibrated, self.runner.clock)
        self.rebalancer.speaks = False
        if steps is not None:
            self.rebalancer.steps_ahead = lambda: steps - self.step

    @property
    def plan(self) -> Plan:
        return self._engine.plan

    @property
    def true_s(self) -> float:
        return self.runner.true_s(self.plan)

    def spend(self, plan: Plan, building: bool) -> None:
        start_s = self.runner.clock.now_s
        self.runner.step_s(plan)
        self.runner.clock.now_s = start_s + (self.runner.clock.now_s - start_s) * self.penalty(plan) + building * self.build_s

    def _make_engine(self, plan: Plan, values: Any, seed: int) -> SimulatedEngine:
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
            finished = self.rebalancer.advance(self, StepCall(batch, self.step, {}, False))
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
