"""A simulated cluster: its steps take what a true profile predicts, with noise, while the planner has another profile."""

from __future__ import annotations

import dataclasses

import numpy as np

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.pipeline.plan_prediction import predict_plan
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.refinement.plan_run import LayerSeconds, TracedStep


class Clock:
    """Seconds that go by as steps are taken."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class SimulatedRunner:
    """Runs plans by a true profile.

    Parameters
    ----------
    truth : profile whose predictions are what steps take.
    noise : standard deviation of ln(seconds) of a step and of each traced pass.
    build_s : seconds to start a plan.
    """

    def __init__(self, truth: Profile, noise: float = 0.0, build_s: float = 1.0) -> None:
        self.costs, self.noise, self.build_s = Costs(truth), noise, build_s
        self.clock = Clock()
        self.generator = np.random.default_rng(7)
        self.running: list[Plan] = []
        self.started: list[Plan] = []

    def start(self, plan: Plan) -> None:
        self.clock.now_s += self.build_s
        self.running.append(plan)
        self.started.append(plan)

    def step_s(self, plan: Plan) -> float:
        assert any(plan is other for other in self.running)
        step_s = self.true_s(plan) * self._disturbed()
        self.clock.now_s += step_s
        return step_s

    def trace(self, plan: Plan) -> TracedStep:
        layers = []
        for stage, entry in [(each, entry) for each in plan.stages for entry in each.layouts]:
            for step_pass in ("forward", "backward", "update"):
                spent = self.costs.spent_on(entry, stage, step_pass).tolist()
                layers += [LayerSeconds(d, entry.layer, step_pass, s * self._disturbed()) for d, s in zip(stage.devices, spent) if s > 0]
        step_s = self.step_s(plan)
        return TracedStep(1.1 * step_s, tuple(layers))

    def stop(self, plan: Plan) -> None:
        self.running = [other for other in self.running if other is not plan]

    def true_s(self, plan: Plan) -> float:
        predicted = predict_plan(self.costs, plan)
        assert predicted is not None
        return predicted.step_s

    def _disturbed(self) -> float:
        return float(np.exp(self.noise * self.generator.standard_normal()))


def slower(profile: Profile, device: int, factor: float) -> Profile:
    """Return the profile with all curves of a device that many times as long."""
    curves = (
        dataclasses.replace(curve, seconds=tuple(factor * s for s in curve.seconds)) if curve.device == device else curve
        for curve in profile.curves
    )
    return dataclasses.replace(profile, curves=tuple(curves))
