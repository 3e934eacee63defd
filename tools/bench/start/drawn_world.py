"""DrawnWorld: a world of a simulated training on a cluster that is drawn, with a rough profile and a truth that differs from it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.choose import candidate_plans
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.exploration.candidates import Candidates, first_plan
from hetero_mtf.planning.exploration.records import Solution, Trial, size_of
from hetero_mtf.planning.pipeline.plan_prediction import predict_plan
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.refinement.plan_run import LayerSeconds, TracedStep
from tools.bench.start.rough_errors import RoughErrors
from tools.bench.start.start_networks import StartNetwork
from tools.bench.start.start_trace import COUNTED, OVERLAPPED, SETTLING, TRACED, WATCHED
from tools.bench.start.temper import Temper
from tools.generated.profiles import Figures, Interconnect, generated_profile

DEVICES, DEVICE_ODDS = (2, 3, 4, 5), (0.4, 0.3, 0.2, 0.1)
OPERATIONS_PER_S = 2e10, 8e10  # of the fastest device
BYTES_PER_OPERATION = 0.05, 0.2
SPEED = 0.15, 1.0  # of each further device, beside the fastest
LATENCY_S, LINK_BYTES_PER_S = (3e-5, 5e-4), (1e8, 5e9)
LENGTH_S = 20.0, 3600.0  # that the steps take one device
LENGTH_IS_KNOWN = 0.75  # of the trainings
LAUNCH_S, START_S = 2e-3, 30e-6  # as in hetero_mtf.calibration.rough
NOISE_STEPS = 2000  # drawn; a longer training goes through them again
TRACE_NOISE = 0.1  # of ln(seconds) of one traced layer


@dataclasses.dataclass(frozen=True)
class StartCase:
    """What is trained, where and for how long.

    Parameters
    ----------
    seed : of all that is drawn.
    network : the network.
    rough : the rough profile that the training begins with.
    truth : that of its steps.
    length_s : what the steps take one device.
    length_is_known : whether the training knows how many they are.
    """

    seed: int
    network: StartNetwork
    rough: Profile
    truth: Profile
    length_s: float
    length_is_known: bool


def drawn_case(seed: int, networks: Sequence[StartNetwork], errors: RoughErrors) -> StartCase:
    """Return a case that is drawn.

    Parameters
    ----------
    seed : of all that is drawn.
    networks : the networks.
    errors : of rough profiles.
    """
    generator = np.random.default_rng(seed)

    def between(ends: tuple[float, float]) -> float:
        return float(math.exp(generator.uniform(*map(math.log, ends))))

    network = networks[int(generator.integers(len(networks)))]
    devices = int(generator.choice(DEVICES, p=DEVICE_ODDS))
    speeds = [1.0, *generator.uniform(*SPEED, devices - 1)]
    rate, moved = between(OPERATIONS_PER_S), between(BYTES_PER_OPERATION)
    figures = [Figures(rate * speed, moved * rate * speed, START_S, 1) for speed in speeds]
    link = between(LATENCY_S), between(LINK_BYTES_PER_S)
    generated = generated_profile(network.graph, figures, network.batch, Interconnect(8, *link, *link))
    rough = dataclasses.replace(generated, launch_s=LAUNCH_S)
    truth = dataclasses.replace(rough, corrections=errors.drawn(rough, generator))
    return StartCase(seed, network, rough, truth, between(LENGTH_S), bool(generator.random() < LENGTH_IS_KNOWN))


class DrawnWorld:
    """The world of a case.

    Parameters
    ----------
    case : the case.
    temper : how steps scatter, and what else takes its time.
    plan_error : standard deviation of ln(step) by which a plan on several devices differs from what the true profile predicts.

    Notes
    -----
    All that is drawn depends on the seed and the number of a step only, so that policies, and hindsight, meet the same world. Steps that
    the policy sees scatter; the planner is given usual ones, so that it solves once for trainings of several lengths.
    """

    def __init__(self, case: StartCase, temper: Temper, plan_error: float) -> None:
        self.case, self._temper, self._plan_error = case, temper, plan_error
        generator = np.random.default_rng([case.seed, 1])
        self._noise = temper.noise(generator, NOISE_STEPS)
        self._slowed = {each: temper.slowed(generator, NOISE_STEPS, each) for each in ("build", "solve")}
        self._first_rate, self.other_s = (float(generator.choice(each)) for each in (temper.first_builds, temper.others))
        self._build_s, self._build_size = temper.builds[int(generator.integers(len(temper.builds)))]
        self._solve_rate, self._move_s = (float(generator.choice(each)) for each in (temper.solves, temper.moves))
        self._settling, self._traced = (generator.choice(each, NOISE_STEPS) for each in (temper.settling, temper.traced))
        self._truth, self._true_s = Costs(case.truth), dict[object, float]()
        self._solutions: dict[object, tuple[Solution, Candidates]] = {}
        self._candidates = Candidates(case.rough)
        self.first = first_plan(case.rough)
        self.floor = self._candidates.floor(self.first)
        single_s = min(self.true_s(plan) for plan in self.plans if len(plan.used) == 1)
        self.single_s = min(single_s, self.true_s(self.first)) if len(self.first.used) == 1 else single_s
        self.length_is_known = case.length_is_known
        self.set_length(case.length_s)

    def set_length(self, length_s: float) -> None:
        """Train for another time.

        Parameters
        ----------
        length_s : what the steps take one device.
        """
        self.steps = max(2, round(length_s / self.single_s))
        self._candidates = Candidates(self.case.rough)

    @property
    def plans(self) -> list[Plan]:
        """The plans of all strategies by the true profile."""
        if not hasattr(self, "_plans"):
            self._plans = candidate_plans(self._truth)
        return self._plans

    def true_s(self, plan: Plan) -> float:
        """Return the usual seconds of a plan's step.

        Parameters
        ----------
        plan : the plan.
        """
        if plan.built_from not in self._true_s:
            predicted = predict_plan(self._truth, plan)
            if predicted is None:
                raise PlanError("a plan of stages one after another has no prediction", "leave it out")
            error = 0.0
            if len(plan.used) > 1:  # the same for all plans that are split alike
                kind = [ord(letter) for letter in plan.strategy]
                error = self._plan_error * np.random.default_rng([self.case.seed, 2, *kind, *plan.used]).standard_normal()
            self._true_s[plan.built_from] = predicted.step_s * math.exp(error)
        return self._true_s[plan.built_from]

    def predicted_s(self, plan: Plan) -> float:
        return self._candidates.prediction(plan).step_s

    def step_s(self, plan: Plan, step: int, state: str, beside: str) -> float:
        at = step % NOISE_STEPS
        if state == OVERLAPPED:
            return self.true_s(plan) * float(self._slowed[beside][at])
        drawn = {SETTLING: self._settling, TRACED: self._traced, COUNTED: self._noise, WATCHED: self._noise}[state]
        return self.true_s(plan) * float(drawn[at])

    def total_s(self, step_s: float) -> float:
        """Return the seconds of all steps but the first under one plan.

        Parameters
        ----------
        step_s : usual seconds of its step.
        """
        noise = self._noise[np.arange(1, self.steps) % NOISE_STEPS]
        return float(step_s * noise.sum() + (self.steps - 1) * self.other_s)

    def trace(self, plan: Plan, step_s: float) -> TracedStep:
        if len(plan.stages) > 1 or plan.microbatches > 1:
            return TracedStep(step_s, ())
        generator = np.random.default_rng([self.case.seed, 3])
        stage, layers = plan.stages[0], list[LayerSeconds]()
        for entry in stage.layouts:
            for step_pass in ("forward", "backward", "update"):
                spent = self._truth.spent_on(entry, stage, step_pass).tolist()
                layers += [
                    LayerSeconds(device, entry.layer, step_pass, seconds * math.exp(TRACE_NOISE * generator.standard_normal()))
                    for device, seconds in zip(stage.devices, spent)
                    if seconds > 0
                ]
        return TracedStep(step_s, tuple(layers))

    def first_build_s(self, on_one: bool = False) -> float:
        """Return the seconds of the first build, with the first step.

        Parameters
        ----------
        on_one : whether it is that of a plan on one device.
        """
        return self._first_rate * (len(self.case.network.graph.layers) if on_one else size_of(self.first))

    def build_s(self, plan: Plan) -> float | None:
        return self._build_s * size_of(plan) / self._build_size

    def solve(self, trials: Sequence[Trial]) -> tuple[Solution, float]:
        """Return what the planner gives, by traces and by usual steps of the plans that were tried: once for each order of these."""
        usual = [self._usual(trial) for trial in trials if trial.step_s]
        key = tuple((trial.plan.built_from, trial.predicted_s, len(trial.traces)) for trial in usual)
        if key not in self._solutions:
            candidates = Candidates(self.case.rough)
            self._solutions[key] = candidates.solve(usual), candidates
        solution, self._candidates = self._solutions[key]
        seconds = self._solve_rate * len(self.case.network.graph.layers) * len(self.case.rough.cluster.devices)
        return dataclasses.replace(solution, trials=len(trials)), seconds

    def _usual(self, trial: Trial) -> Trial:
        """Return a trial with steps and traces that do not scatter from one training to the next."""
        step_s = self.true_s(trial.plan)
        traces = tuple(self.trace(trial.plan, step_s) for _ in trial.traces)
        return dataclasses.replace(trial, step_s=(step_s,) * len(trial.step_s), traces=traces)

    def move_s(self) -> float:
        return self._move_s


def best_s(world: DrawnWorld, tried: Sequence[Any]) -> float:
    """Return the usual seconds of a step of the best plan: of those of all strategies by the truth, and of those that were tried.

    Parameters
    ----------
    world : the world.
    tried : plans that were tried.
    """
    return min(world.true_s(plan) for plan in [*world.plans, *tried])
