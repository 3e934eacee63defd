"""The loop of refinement: run plans, correct the profile by what they took, plan again, and keep the plan with the best measured step."""

from __future__ import annotations

import dataclasses
import datetime
import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence

from hetero_mtf.errors import LayoutError, PlanError, UnsupportedError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.choose import candidate_plans, mixes_samples
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.records import Alternative
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.corrections import Corrections
from hetero_mtf.planning.profile.prediction_error import prediction_error
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.refinement.corrector import Corrector, prediction
from hetero_mtf.planning.refinement.limits import TIME_LIMIT_S
from hetero_mtf.planning.refinement.plan_run import PlanRun, PlanRunner, TracedStep
from hetero_mtf.planning.strategies.reasons import bottleneck_part, relative_step

ROUNDS = 3  # of a plan when it is first run, and of the best plans side by side at the end
TRACES = 3
LEAST_GAIN = 0.01  # an alternative that promises less is not run
MOST_ROUNDS = 9  # at the end, where the best plans are as fast within their spread
FINALISTS = 3


@dataclasses.dataclass(frozen=True)
class Refinement:
    """The result of a refinement.

    Parameters
    ----------
    plan : the plan with the best measured step, with its prediction by the corrected profile.
    profile : the profile with corrections.
    runs : the plans that were run, in their order.
    seconds : seconds that it took.
    reason : why it ended, as text.
    """

    plan: Plan
    profile: Profile
    runs: tuple[PlanRun, ...]
    seconds: float
    reason: str

    @property
    def first(self) -> PlanRun:
        """The run of the plan that refinement began with."""
        return self.runs[0]

    @property
    def best(self) -> PlanRun:
        """The run of the plan in force."""
        return next(run for run in self.runs if run.plan.built_from == self.plan.built_from)

    @property
    def gain(self) -> float:
        """Measured step of the plan that it began with, relative to that of the plan in force."""
        return self.first.median_s / self.best.median_s


class Refiner:
    """Refines a plan.

    Parameters
    ----------
    profile : Profile of the network and cluster; its corrections are taken as a start.
    runner : runs plans on the cluster.
    time_limit_s : seconds after which no further plan is started.
    clock, now : give seconds, and the time.
    """

    def __init__(
        self,
        profile: Profile,
        runner: PlanRunner,
        time_limit_s: float = TIME_LIMIT_S,
        clock: Callable[[], float] = time.perf_counter,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.timezone.utc),
    ) -> None:
        self.measured = dataclasses.replace(profile, corrections=Corrections())
        self.runner, self.time_limit_s = runner, time_limit_s
        self._corrector, self._costs = Corrector(self.measured, now), Costs(profile)
        self._clock, self._start_s = clock, clock()
        self._runs: list[PlanRun] = []
        self._started: list[Plan] = []
        self._refused: list[Plan] = []
        self._longest_s, self._comparison_s = 0.0, 0.0  # of a run, and of comparing the best

    @property
    def profile(self) -> Profile:
        """The profile as corrected by the runs so far."""
        return self._costs.profile

    def refine(self, plan: Plan) -> Refinement:
        """Return the plan with the best measured step, among a given one, the best single device and what is predicted to be as fast.

        Parameters
        ----------
        plan : the plan to begin with.

        Raises
        ------
        HeteroError
            If the given plan cannot be run, or a worker dies.

        Notes
        -----
        After each run the factors of layers, links and launch overhead are estimated again from all runs, and all strategies are
        solved again. A plan of a strategy that was run on the same devices promises its prediction, multiplied by what that run
        took beside its own; another one promises its prediction less the error of predictions. The next to run is the one with the
        shortest promised step, as long as that is one per cent below the best measured step. At the end the best ones are measured
        side by side, for more rounds while it is not sure that the best one is faster than one device, past the time limit these two
        alone; if it never is, one device is taken. A plan whose numbers are not those of one device (butterfly mixing, batch norm in
        microbatches) has no alternatives.
        """
        try:
            self._run(plan)
            reason = (
                self._run_alternatives() if has_alternatives(plan, self.measured.graph) else "no other plan has the numbers of this one"
            )
            best = self._compare_best()
        finally:
            for started in self._started:
                self.runner.stop(started)
        return Refinement(self._in_force(best), self.profile, tuple(self._runs), self._clock() - self._start_s, reason)

    def _in_force(self, best: PlanRun) -> Plan:
        """Return the plan of a run with its corrected prediction, and the other runs as alternatives."""
        rest = [(run, prediction(self._costs, run.plan)) for run in self._runs if run is not best]
        strategy = best.plan.strategy
        alternatives = tuple(
            Alternative(
                run.plan.strategy,
                predicted.step_s,
                f"measured {relative_step(run.median_s, best.median_s, strategy)}",
                bottleneck_part(predicted),
            )
            for run, predicted in rest
        )
        return dataclasses.replace(best.plan, predicted=prediction(self._costs, best.plan), alternatives=alternatives)

    def _run_alternatives(self) -> str:
        """Run the best single device, then what promises a gain, and return why no more is run."""
        while True:
            plans = candidate_plans(self._costs)
            unrun = [plan for plan in plans if not self._was_run(plan)]
            single = [] if any(len(run.plan.used) == 1 for run in self._runs) else [plan for plan in unrun if len(plan.used) == 1]
            following = single[0] if single else self._promising(unrun)
            if following is None:
                return "no other plan promises to be faster"
            if not self._has_time(bool(single)):
                return "the time limit"
            try:
                self._run(following)
            except (LayoutError, PlanError, UnsupportedError):
                self._refused.append(following)

    def _has_time(self, for_single: bool) -> bool:
        """Return whether another plan may be run; the best single device by the usual limit however long the first plan took."""
        left_s = self.time_limit_s - (self._clock() - self._start_s)
        if for_single:
            return left_s >= 0 or self.time_limit_s >= TIME_LIMIT_S
        return left_s >= self._longest_s + self._comparison_s

    def _promising(self, plans: Iterable[Plan]) -> Plan | None:
        """Return the plan with the shortest promised step, if that is shorter than the best measured step by one per cent."""
        least_s = min(run.median_s for run in self._runs) * (1 - LEAST_GAIN)
        promised = [(self._promised_s(plan), plan) for plan in plans]
        step_s, promising = min(promised, key=lambda entry: entry[0], default=(least_s, None))
        return promising if step_s < least_s else None

    def _promised_s(self, plan: Plan) -> float:
        """Return the seconds that a plan promises at best, see `refine`."""
        assert plan.predicted is not None
        step_s = plan.predicted.step_s
        like = [run for run in self._runs if (run.plan.strategy, run.plan.used) == (plan.strategy, plan.used)]
        if not like:
            return step_s * (1 - prediction_error(self.profile, step_s))
        return step_s * like[-1].median_s / prediction(self._costs, like[-1].plan).step_s

    def _run(self, plan: Plan) -> None:
        began_s = self._clock()
        first_s, predicted_s = (prediction(costs, plan).step_s for costs in (self._corrector.costs, self._costs))
        self._started.append(plan)
        try:
            self.runner.start(plan)
        except (LayoutError, PlanError, UnsupportedError):
            self._started.remove(plan)
            raise
        built_s = self._clock()
        seconds = tuple(self.runner.step_s(plan) for _ in range(ROUNDS))
        self._comparison_s = max(self._comparison_s, FINALISTS * (self._clock() - built_s))
        traces: tuple[TracedStep, ...] = tuple(self.runner.trace(plan) for _ in range(TRACES))
        self._runs.append(PlanRun(plan, seconds, traces, predicted_s, first_s))
        self._correct()
        self._drop_slowest()
        self._longest_s = max(self._longest_s, self._clock() - began_s)

    def _drop_slowest(self) -> None:
        """Free what plans hold on the cluster that will not be measured again."""
        kept = [self._runs[at].plan for at in self._finalists()]
        for plan in [plan for plan in self._started if not any(plan is other for other in kept)]:
            self._started.remove(plan)
            self.runner.stop(plan)

    def _finalists(self) -> list[int]:
        """Return the indices of the runs of the best plan, of the best single device, and of those next to the best."""
        ordered = sorted(range(len(self._runs)), key=lambda at: self._runs[at].median_s)
        alone = [at for at in ordered if len(self._runs[at].plan.used) == 1]
        return list(dict.fromkeys([*ordered[:1], *alone[:1], *ordered]))[:FINALISTS]

    def _compare_best(self) -> PlanRun:
        """Return the best run, after the best plans, the best single device among them, were measured once more side by side."""
        order = self._finalists()
        if len(order) < 2:
            return self._runs[order[0]]
        rounds: dict[int, list[float]] = {at: [] for at in order}
        alone = next((at for at in order if len(self._runs[at].plan.used) == 1), None)
        measured = order
        for number in range(1, MOST_ROUNDS + 1):
            for at in measured:
                rounds[at].append(self.runner.step_s(self._runs[at].plan))
            if number < ROUNDS:
                continue
            best = min(measured, key=lambda at: statistics.median(rounds[at]))
            sure = alone is None or best == alone or faster_for_sure(rounds[best], rounds[alone])
            is_over = self._clock() - self._start_s >= self.time_limit_s
            if sure or is_over and self.time_limit_s < TIME_LIMIT_S:
                break
            measured = [at for at in order if not is_over or at in (best, alone)]
        for at in order:
            self._runs[at] = dataclasses.replace(self._runs[at], step_s=tuple(rounds[at]))
        self._correct()
        return self._runs[best if sure or alone is None else alone]

    def _correct(self) -> None:
        """Estimate all factors again, from all runs."""
        self._costs = Costs(dataclasses.replace(self.measured, corrections=self._corrector.corrections(self._runs)))

    def _was_run(self, plan: Plan) -> bool:
        return any(plan.built_from == known.built_from for known in (*(run.plan for run in self._runs), *self._refused))


def has_alternatives(plan: Plan, graph: LayerGraph) -> bool:
    """Return whether a plan has the numbers of one device, as all other plans have that could take its place.

    Parameters
    ----------
    graph : the network.
    """
    apart = plan.microbatches > 1 and mixes_samples(graph)
    return plan.gradient_sync == "all_reduce" and not apart


def faster_for_sure(rounds_s: Sequence[float], others_s: Sequence[float]) -> bool:
    """Return whether a plan is faster than another by more than the standard error of the median of their ratios.

    Parameters
    ----------
    rounds_s, others_s : (rounds,) seconds a step, at least two, measured in turns: what disturbs a round disturbs both.

    Examples
    --------
    >>> faster_for_sure([0.9, 1.8, 0.9], [1.0, 2.0, 1.0]), faster_for_sure([0.9, 1.2, 0.9], [1.0, 1.0, 1.0])
    (True, False)
    """
    gains = [math.log(other / own) for own, other in zip(rounds_s, others_s)]
    # of normal values, the median's standard error is sqrt(pi / 2) times the mean's
    error = math.sqrt(math.pi / 2 / len(gains)) * statistics.stdev(gains)
    return statistics.median(gains) > error
