"""A stage of a pipeline: its seconds and bytes are those of its part of the network, by the same rules."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import StageCost, predict, stage_cost
from hetero_mtf.planning.layout.manual import batch_stage, filter_stage, single_stage
from hetero_mtf.planning.layout.records import Stage
from hetero_mtf.planning.memory.layer_memory import NetworkMemory
from hetero_mtf.planning.memory.stage_memory import stage_bytes, stage_memory_bytes
from hetero_mtf.planning.profile.profile import Profile
from tests.planning.networks import profile_of, residual_net


@pytest.fixture(scope="module")
def profile() -> Profile:
    return profile_of(residual_net(8), [1e6, 3e5, 5e5])


def _cut(stage: Stage, start: int, end: int) -> Stage:
    return dataclasses.replace(stage, layers=stage.layers[start:end], layouts=stage.layouts[start:end])


def test_a_stage_of_the_whole_network_costs_what_a_step_is_predicted_to_take(profile: Profile) -> None:
    costs, graph = Costs(profile), profile.graph
    alone = stage_cost(costs, single_stage(graph, 1))
    step = predict(costs, single_stage(graph, 1))
    assert alone.microbatch_s + alone.finish.seconds == pytest.approx(step.step_s - step.launch_s)
    assert _sum(alone, "compute_s") == pytest.approx([part.compute_s for part in step.parts])
    for stage in (filter_stage(graph, [3.0, 1.0, 2.0], "pairs"), batch_stage(graph, [2, 1, 1], range(3))):
        found, step = stage_cost(costs, stage), predict(costs, stage)
        assert found.microbatch_s + found.finish.seconds >= step.step_s - step.launch_s - 1e-12  # its passes start together
        assert _sum(found, "compute_s") == pytest.approx([part.compute_s for part in step.parts])
        assert _sum(found, "communication_s") == pytest.approx([part.communication_s for part in step.parts])


def _sum(cost: StageCost, name: str) -> list[float]:
    return np.sum([getattr(part, name) for part in (cost.forward, cost.backward, cost.finish)], axis=0).tolist()


def test_stages_add_up_to_the_network(profile: Profile) -> None:
    costs, whole = Costs(profile), single_stage(profile.graph, 0)
    all_of_it = stage_cost(costs, whole)
    parts = [stage_cost(costs, _cut(whole, *span)) for span in ((0, 3), (3, 5), (5, len(whole.layers)))]
    for name in ("forward", "backward", "finish"):
        assert sum(getattr(part, name).seconds for part in parts) == pytest.approx(getattr(all_of_it, name).seconds)


def test_bytes_of_stages_add_up_and_those_of_microbatches_in_flight(profile: Profile) -> None:
    whole, memory = single_stage(profile.graph, 0), NetworkMemory(profile)
    everything = stage_bytes(profile, whole, memory=memory)
    parts = [stage_bytes(profile, _cut(whole, *span), memory=memory) for span in ((0, 3), (3, 5), (5, len(whole.layers)))]
    assert sum(part.fixed for part in parts) == pytest.approx(everything.fixed)
    assert everything.fixed[0] == sum(memory.weight_bytes) + sum(memory.gradient_bytes)
    assert sum(part.kept for part in parts)[0] >= everything.kept[0]  # what crosses a border is kept on both sides where both need it
    assert everything.peak(3)[0] - everything.peak(2)[0] == pytest.approx(everything.kept[0], abs=1)
    assert everything.peak(1)[0] >= stage_memory_bytes(profile, whole)[0]


def test_recomputing_keeps_only_what_other_stages_sent(profile: Profile) -> None:
    stage = _cut(single_stage(profile.graph, 0), 3, len(profile.graph.layers))
    plain, again = stage_bytes(profile, stage), stage_bytes(profile, stage, recompute=True)
    assert 0 < again.kept[0] < plain.kept[0] and again.peak(1)[0] >= plain.peak(1)[0] and again.peak(8)[0] < plain.peak(8)[0]
    assert stage_bytes(profile, single_stage(profile.graph, 0), recompute=True).kept.tolist() == [0.0]
