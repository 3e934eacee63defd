"""Whether another plan pays: what it gains over the rest of the run against what the move costs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.choose import candidate_plans
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.arrangement import draws_at_random
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.prediction_error import prediction_error
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.refinement.corrector import prediction
from hetero_mtf.training.rebalancing.records import Decision, DeviceChange
from hetero_mtf.units import seconds_text

LEAST_GAIN = 0.05  # part of the step that a move gains at least, or the spread of steps where that is larger
MARGIN = 1.5  # times the cost of a move that its gain has to exceed


@dataclasses.dataclass(frozen=True)
class Present:
    """Where a training is.

    Parameters
    ----------
    step : number of steps taken.
    plan : the plan in force.
    step_s : measured seconds of a step now.
    changes : the devices that have changed.
    steps_left : steps that a gain is expected for.
    cost_s : seconds that a move is expected to take.
    spread : inter-quartile range of such steps, relative to their median.
    refused : `Plan.built_from` of the plans that are not moved to: they could not be built, or did not bring the gain.
    """

    step: int
    plan: Plan
    step_s: float
    changes: tuple[DeviceChange, ...]
    steps_left: int
    cost_s: float
    spread: float = 0.0
    refused: frozenset[object] = frozenset()

    @property
    def head(self) -> Mapping[str, object]:
        """What a decision repeats of it."""
        head = {"step": self.step, "changes": self.changes, "before": self.plan, "before_s": self.step_s}
        return {**head, "steps_left": self.steps_left, "cost_s": self.cost_s}


def decide(costs: Costs, present: Present, plans: Callable[[Costs], Iterable[Plan]] = candidate_plans) -> Decision:
    """Return whether to move, and to which plan.

    Parameters
    ----------
    costs : Costs of the profile with the speeds of devices as they are now.
    present : where the training is.
    plans : gives the plans that could take the place of the present one, which are only solved for where a gain could pay.

    Notes
    -----
    With T the measured step and p the predictions, a plan whose layers are split alike on the same devices, in other parts, is expected
    to take p(other) T / p(present). Any other plan has other errors than the present one: it is expected to take p(other), times
    T / p(present) where that is above 1, and more by the largest error that predictions had. It is moved to if

        T - expected >= max(0.05, spread) T    and    (T - expected) * steps left > 1.5 * cost
    """
    if present.step_s * present.steps_left <= MARGIN * present.cost_s:
        return _stays(present, f"{present.steps_left} steps are left, which take less than a move")
    own = prediction(costs, present.plan).step_s
    expected = [
        (_expected_s(costs, present, plan, own), plan)
        for plan in plans(costs)
        if plan.built_from not in present.refused
        and plan.built_from != present.plan.built_from
        and draws_alike(costs.graph, plan, present.plan)
    ]
    if not expected:
        return _stays(present, "there is no other plan")
    expected_s, best = min(expected, key=lambda entry: entry[0])
    gain_s = (present.step_s - expected_s) * present.steps_left
    least = max(LEAST_GAIN, present.spread)
    if present.step_s - expected_s < least * present.step_s:
        return _stays(present, f"no other plan is expected to be faster by {least:.0%}", best, expected_s)
    if gain_s <= MARGIN * present.cost_s:
        spared = f"{present.steps_left} steps under the best other plan save {seconds_text(gain_s)}"
        return _stays(present, f"{spared}, and a move takes {seconds_text(present.cost_s)}", best, expected_s)
    return Decision(**present.head, moves=True, reason=change_text(present.changes), after=best, expected_s=expected_s)  # type: ignore[arg-type]


def draws_alike(graph: LayerGraph, plan: Plan, present: Plan) -> bool:
    """Return whether a plan has the random draws of another one: in a network that draws none, or with as many microbatches.

    Parameters
    ----------
    graph : the network.
    plan, present : the plans.
    """
    return plan.microbatches == present.microbatches or not any(map(draws_at_random, graph.layers))


def _stays(present: Present, reason: str, best: Plan | None = None, expected_s: float = 0.0) -> Decision:
    return Decision(**present.head, moves=False, reason=reason, after=best, expected_s=expected_s)  # type: ignore[arg-type]


def _expected_s(costs: Costs, present: Present, plan: Plan, own_s: float) -> float:
    assert plan.predicted is not None
    predicted_s, measured_part = plan.predicted.step_s, present.step_s / own_s
    if _kinds(plan) == _kinds(present.plan):
        return predicted_s * measured_part
    return predicted_s * max(1.0, measured_part) * (1 + _worst_error(costs.profile, predicted_s))


def _worst_error(profile: Profile, step_s: float) -> float:
    """Return the largest error that predictions of steps had, as the plan is not run beforehand; as where none was run without any."""
    errors = (abs(math.log(step.measured_s / step.predicted_s)) for step in profile.corrections.steps[1:])
    return max(prediction_error(profile, step_s), *errors, 0.0)


def _kinds(plan: Plan) -> object:
    """Return how the layers of a plan are split and on which devices, whatever the sizes."""
    return [(stage.layers, stage.devices, stage.axes, [entry.layout for entry in stage.layouts]) for stage in plan.stages], plan.execution


def change_text(changes: Iterable[DeviceChange]) -> str:
    """Return which devices have changed, as text.

    Parameters
    ----------
    changes : the devices.

    Examples
    --------
    >>> change_text([DeviceChange("worker:1", 2.5), DeviceChange("worker:2", 0.5)])
    'worker:1 became 2.50 times as slow and worker:2 became 2.00 times as fast'
    """
    return " and ".join(
        f"{each.device} became {each.times:.2f} times as slow"
        if each.times > 1
        else f"{each.device} became {1 / each.times:.2f} times as fast"
        for each in changes
    )
