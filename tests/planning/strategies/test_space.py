from __future__ import annotations

import itertools

import pytest

from hetero_mtf.errors import NothingToSplitError, PlanError
from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.manual import single_stage
from hetero_mtf.planning.layout.records import Stage
from hetero_mtf.planning.memory.stage_memory import stage_memory_bytes
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.strategies.space import best_space, slab_stage
from tests.planning.networks import Net, in_slabs, pair_net, profile_of, residual_net
from tests.planning.strategies.test_fitting import apart

GRAPH = residual_net()
EXTENT = max(GRAPH.layers[index].output_shape[0] for index in GRAPH.inputs)


def measured(speeds: list[float], latency_s: float = 0.0, memory_bytes: int = 2**34) -> Profile:
    return in_slabs(profile_of(GRAPH, speeds, latency_s, 1e8, batch_size=1, memory_bytes=memory_bytes))


def input_slabs(stage: Stage) -> tuple[int, ...]:
    return stage.layouts[GRAPH.inputs[0]].slabs


@pytest.mark.parametrize("latency_s", [0.0, 1e-3])
@pytest.mark.parametrize("speeds", [[1e6, 1e6], [1.7e6, 6e5], [1e6, 5e4]])
def test_slabs_are_as_fast_as_those_that_brute_force_finds(speeds: list[float], latency_s: float) -> None:
    costs = Costs(measured(speeds, latency_s))
    found = best_space(costs)
    cut = [(n, EXTENT - n) for n in range(1, EXTENT)]
    least = min(predict(costs, slab_stage(GRAPH, sizes, 0, (0, 1))).step_s for sizes in cut)
    assert len(found.stage.devices) == 1 or found.prediction.step_s == pytest.approx(least)


def test_the_faster_device_gets_more_positions_and_one_of_no_use_none() -> None:
    first, second = input_slabs(best_space(Costs(measured([2e6, 1e6]))).stage)
    assert first > second > 0 and first + second == EXTENT
    assert best_space(Costs(measured([1e6, 1e6, 1.0]))).stage.devices == (0, 1)


def test_a_volume_that_fits_on_no_device_is_cut_as_memory_allows() -> None:
    net = Net((1024, 1024, 16))
    for name in ("first", "second", "third"):
        net.conv(name, 32)
    graph = net.graph()
    roomy = in_slabs(apart(graph, [3e10, 1e10], [2**36] * 2, 1))
    free, alone = plan(roomy, strategy="space"), stage_memory_bytes(roomy, single_stage(graph, 1))[0]
    assert free.stages[0].layouts[0].slabs == (768, 256) and stage_memory_bytes(roomy, free.stages[0])[0] > (limit := int(0.8 * alone))
    tight = in_slabs(apart(graph, [3e10, 1e10], [limit] * 2, 1))
    made, cut = plan(tight), plan(tight, strategy="space")
    assert made.strategy in ("space", "layers") and cut.stages[0].layouts[0].slabs[0] < 768
    assert all(max(part.memory_bytes for part in each.predicted.parts) <= limit for each in (made, cut) if each.predicted is not None)
    with pytest.raises(PlanError, match=r"strategy single needs .* bytes short, most for layer \w+"):
        plan(tight, strategy="single")
    with pytest.raises(PlanError, match="no plan fits in memory"):
        plan(in_slabs(apart(graph, [3e10, 1e10], [limit // 3] * 2, 1)))


def test_layers_are_laid_out_no_worse_than_by_each_strategy_alone() -> None:
    for speeds, latency_s in itertools.product([[1e6, 1e6], [1.7e6, 6e5]], [0.0, 1e-4]):
        profile = measured(speeds, latency_s)
        steps = {name: plan(profile, strategy=name).predicted for name in ("filters", "batch", "hybrid", "space", "layers")}
        assert steps["layers"] is not None
        assert all(steps["layers"].step_s <= step.step_s * (1 + 1e-9) for step in steps.values() if step is not None), steps


def test_without_measured_slabs_there_is_no_plan_and_no_alternative() -> None:
    profile = profile_of(pair_net(), [1e6, 1e6])
    with pytest.raises(NothingToSplitError, match="no layer was measured in slabs of space, as samples can be split; use strategy batch"):
        best_space(Costs(profile))
    assert "space" not in {other.strategy for other in plan(profile).alternatives}
    assert "space" in {plan(measured([1e6, 1e6])).strategy, *(other.strategy for other in plan(measured([1e6, 1e6])).alternatives)}
