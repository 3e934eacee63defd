"""What traces tell is set beside the curve by which the same pass is predicted."""

from __future__ import annotations

import pytest

from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.refinement.observations import observations
from hetero_mtf.planning.refinement.plan_run import LayerSeconds, PlanRun, TracedStep
from tests.planning.networks import pair_net, profile_of, residual_net
from tests.planning.refinement.simulated import SimulatedRunner, slower

PROFILE = profile_of(residual_net(), [2e6, 1e6], 1e-6)


def run_of(planned: Plan, runner: SimulatedRunner) -> PlanRun:
    runner.start(planned)
    step_s = runner.true_s(planned)
    return PlanRun(planned, (step_s,), (runner.trace(planned),), step_s, step_s)


@pytest.mark.fast("batch", "equal", "filters", "hybrid", "single")
@pytest.mark.parametrize("strategy", ["single", "equal", "filters", "batch", "hybrid", "layers"])
def test_a_right_profile_has_ratios_of_one_for_every_strategy(strategy: str) -> None:
    run = run_of(plan(PROFILE, strategy=strategy), SimulatedRunner(PROFILE))
    observed = observations(Costs(PROFILE), [run])
    assert observed and all(entry.log_ratio == pytest.approx(0.0, abs=1e-9) for entry in observed)


def test_splits_are_those_of_the_curves() -> None:
    kinds = {
        strategy: {
            (entry.split, entry.step_pass)
            for entry in observations(Costs(PROFILE), [run_of(plan(PROFILE, strategy=strategy), SimulatedRunner(PROFILE))])
        }
        for strategy in ("single", "batch", "equal")
    }
    assert {split for split, _ in kinds["single"]} == {"alone"}
    assert kinds["batch"] == {("samples", "forward"), ("samples", "backward"), ("whole", "update")}
    assert ("units", "forward") in kinds["equal"]


def test_a_slow_device_has_its_ratio_on_all_layers() -> None:
    run = run_of(plan(PROFILE, strategy="batch"), SimulatedRunner(slower(PROFILE, 1, 2.0)))
    ratios = {entry.device: entry.traced_s / entry.predicted_s for entry in observations(Costs(PROFILE), [run])}
    assert ratios == {0: pytest.approx(1.0), 1: pytest.approx(2.0)}


def test_processors_on_one_device_are_observed_together() -> None:
    profile = profile_of(pair_net(), [1e6, 1e6], same_device=True)
    planned = plan(profile, strategy="equal")
    costs = Costs(profile)
    spent = {entry.layer: float(costs.spent_on(entry, planned.stages[0], "forward").sum()) for entry in planned.stages[0].layouts}
    trace = TracedStep(1.0, tuple(LayerSeconds(0, layer, "forward", seconds) for layer, seconds in spent.items() if seconds > 0))
    observed = observations(costs, [PlanRun(planned, (1.0,), (trace,), 1.0, 1.0)])
    assert observed and all(entry.device == 0 and entry.log_ratio == pytest.approx(0.0) for entry in observed)


def test_pipelines_are_left_out() -> None:
    graph = pair_net(24, 24, 24)
    profile = profile_of(graph, [2e6, 1e6], 1e-6, batch_size=8)
    planned = plan(profile, strategy="pipeline")
    layer = next(entry.layer for entry in planned.stages[0].layouts if entry.layer)
    trace = TracedStep(1.0, (LayerSeconds(planned.used[0], layer, "forward", 0.1),))
    assert observations(Costs(profile), [PlanRun(planned, (1.0,), (trace,), 1.0, 1.0)]) == []
