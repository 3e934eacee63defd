from __future__ import annotations

import numpy as np
import pytest

from hetero_mtf.planning.choose import STRATEGIES
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.strategies.ideal import least_step_s
from tests.planning.layout_objective import drawn_graph, drawn_profile
from tests.planning.networks import pair_net, profile_of


@pytest.mark.fast("11")
@pytest.mark.parametrize("seed", range(12))
def test_no_plan_is_predicted_below_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = drawn_graph(rng, int(rng.integers(4, 12)))
    costs = Costs(drawn_profile(rng, graph))
    devices = tuple(range(len(costs.profile.cluster.devices)))
    least = least_step_s(costs, devices)
    assert least > 0
    for name in ("equal", "filters", "batch", "layers"):
        assert STRATEGIES[name](costs).prediction.step_s >= least * (1 - 1e-9)


def test_devices_of_constant_relative_speed_are_bounded_by_their_speeds_together() -> None:
    graph = pair_net(24, 24, 24)
    costs = Costs(profile_of(graph, [2e6, 1e6]))
    work = 3.0 * 4 * sum(layer.flops for layer in graph.layers)
    assert least_step_s(costs, (0, 1)) == pytest.approx(work / 3e6, rel=1e-6)


def test_one_device_is_bounded_by_its_own_passes() -> None:
    graph = pair_net()
    costs = Costs(profile_of(graph, [1e6, 5e5]))
    alone = predict(costs, Plan.single(graph, 1, costs.profile.cluster, 4).stages[0])
    assert least_step_s(costs, (1,)) == pytest.approx(alone.forward_s + alone.backward_s, rel=1e-6)
