from __future__ import annotations

import dataclasses

import pytest

from hetero_mtf.planning.choose import STRATEGIES, plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.strategies.resizing import Resizer
from tests.planning.networks import pair_net, profile_of, residual_net

GRAPH = pair_net(48, 48, 24)


@pytest.mark.fast("hybrid")
@pytest.mark.parametrize("strategy", ["filters", "batch", "hybrid"])
def test_on_the_same_devices_recomputed_sizes_are_those_of_the_strategy(strategy: str) -> None:
    for graph in (GRAPH, residual_net()):
        costs = Costs(profile_of(graph, [3e6, 2e6, 1e6], 1e-6, batch_size=8))
        best = STRATEGIES[strategy](costs)
        stage = Resizer(costs, best.stage).on(best.stage.devices)
        assert stage.axes == best.stage.axes
        assert [entry.layout for entry in stage.layouts] == [entry.layout for entry in best.stage.layouts]
        if strategy == "filters":
            assert stage == best.stage
        assert predict(costs, stage).step_s <= best.prediction.step_s * 1.2


@pytest.mark.fast("hybrid")
@pytest.mark.parametrize("strategy", ["filters", "batch", "hybrid"])
def test_a_plan_resized_to_fewer_devices_fits_the_network(strategy: str) -> None:
    for graph in (GRAPH, residual_net()):
        profile = profile_of(graph, [3e6, 2e6, 1e6], 1e-6, batch_size=8)
        costs = Costs(profile)
        made = plan(profile, strategy=strategy)
        for left in ((0, 1), (0, 2), (1, 2), (2,)):
            stage = Resizer(costs, made.stages[0]).on(left)
            assert set(stage.devices) <= set(left)
            dataclasses.replace(made, stages=(stage,), predicted=None, contributions=(), collectives=()).check(graph)
