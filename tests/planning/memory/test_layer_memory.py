from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.layout.resharding import output_of
from hetero_mtf.planning.memory.layer_memory import LayerMemory, NetworkMemory
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec
from hetero_mtf.planning.profile.profile import Profile
from tests.planning.networks import Net, attention_net, cluster_of, frozen, pair_net, profile_of

GRAPH = pair_net()


WEIGHTS = sum(v.size for layer in GRAPH.layers for v in layer.variables)


def kept(profile: Profile, plan: Plan) -> np.ndarray:
    held = LayerMemory(NetworkMemory(profile), plan.stages[0])
    return np.sum([held.layer_bytes(entry) for entry in plan.stages[0].layouts], axis=0)


def temporaries(profile: Profile, plan: Plan) -> np.ndarray:
    held = LayerMemory(NetworkMemory(profile), plan.stages[0])
    return np.array([held.temporary_bytes(entry) for entry in plan.stages[0].layouts])


def test_one_device_keeps_weights_slots_and_what_the_backward_pass_needs() -> None:
    profile = profile_of(GRAPH, [1e6])
    needed = [9 * 9 * 3, 9 * 9 * 12, 9 * 9 * 10, 5]  # a Flatten is its input's memory
    assert kept(profile, Plan.single(GRAPH, 0, profile.cluster, 4)) == [4 * (2 * WEIGHTS + 4 * sum(needed))]


def test_gradients_of_a_layers_output_inputs_and_weights_are_its_temporary() -> None:
    profile = profile_of(GRAPH, [1e6])
    found = temporaries(profile, Plan.single(GRAPH, 0, profile.cluster, 4))
    second = 2 * (9 * 12 * 10 + 10) + 4 * 9 * 9 * (10 + 12)
    assert found[2] == [4 * second] and found[0] == found[3] == [0]


def test_slabs_keep_the_activations_of_one_device_and_no_copies_with_halos() -> None:
    net = Net((12, 9, 6))
    for name in ("first", "second", "third"):
        net.conv(name, 6)
    graph = net.graph()
    profile = profile_of(graph, [1e6, 1e6])
    alone, space = (kept(profile, p) for p in (Plan.single(graph, 0, profile.cluster, 4), Plan.space(graph, [2, 1], profile.cluster, 4)))
    weights = 4 * sum(v.size for layer in graph.layers for v in layer.variables)
    assert alone.sum() == 2 * weights + (activations := 4 * 4 * 4 * 12 * 9 * 6)
    assert space.sum() == 2 * 3 * weights + activations  # with the gradients, which are added up over the slabs


def test_a_row_holds_its_partial_sums_those_of_others_and_their_sum() -> None:
    profile = profile_of(GRAPH, [1e6, 1e6])
    plan = Plan.filters(GRAPH, [1, 1], profile.cluster, 4)
    assert plan.stages[0].layouts[2].layout == "row" and (temporaries(profile, plan)[2] >= 3 * 4 * 4 * 9 * 9 * 10).all()


@pytest.mark.parametrize(
    ("name", "options", "slots"),
    [("sgd", {}, 0), ("sgd", {"momentum": 0.9}, 1), ("adam", {}, 2), ("adamw", {}, 2), ("adam", {"amsgrad": True}, 3), ("other", {}, 2)],
)
def test_each_slot_of_the_optimizer_is_kept_beside_the_weights(name: str, options: dict[str, Any], slots: int) -> None:
    profile = profile_of(GRAPH, [1e6])
    plan = Plan.single(GRAPH, 0, profile.cluster, 4)
    specs = OptimizerSpec(name, **options), OptimizerSpec("sgd")
    bytes_of = [kept(dataclasses.replace(profile, optimizer=spec), plan) for spec in specs]
    assert bytes_of[0] - bytes_of[1] == 4 * slots * WEIGHTS


@pytest.mark.parametrize(("name", "steps", "sums"), [("lamb", None, 0), ("lamb", 2, 1), ("other", None, 0)])
def test_an_optimizer_on_full_variables_keeps_slots_in_full_and_gathers_weights_and_gradients(
    name: str, steps: int | None, sums: int
) -> None:
    profile = profile_of(GRAPH, [1e6, 1e6])
    plan = Plan.filters(GRAPH, [1, 1], profile.cluster, 4)
    variables = [(sum(v.size for v in GRAPH.layers[entry.layer].variables), entry.sizes) for entry in plan.stages[0].layouts]
    gathered = sum(size for size, sizes in variables if sizes)
    split = sum(size * (np.array(sizes) / sum(sizes) if sizes else np.ones(2)) for size, sizes in variables)
    specs = OptimizerSpec("sgd"), OptimizerSpec(name, gradient_accumulation_steps=steps)
    sgd, full = (kept(dataclasses.replace(profile, optimizer=spec), plan) for spec in specs)
    assert gathered and full - sgd == pytest.approx(4 * (2 * WEIGHTS + sums * split + 2 * gathered))  # sums are split as weights are


def test_a_split_holds_less_on_each_device_and_less_where_the_share_is_less() -> None:
    profile = profile_of(GRAPH, [1e6, 1e6])
    alone = kept(profile, Plan.single(GRAPH, 0, profile.cluster, 4))[0]
    large, small = kept(profile, Plan.filters(GRAPH, [3, 1], profile.cluster, 4))
    assert small < large < alone


def test_a_split_batch_holds_all_weights_and_their_gradients_and_outputs_by_samples() -> None:
    profile = profile_of(GRAPH, [1e6, 1e6])
    alone = kept(profile, Plan.single(GRAPH, 0, profile.cluster, 4))[0]
    large, small = kept(profile, Plan.batch(GRAPH, [3, 1], profile.cluster, 4))
    assert large == 12 * WEIGHTS + (alone - 8 * WEIGHTS) * 3 / 4 and small == 12 * WEIGHTS + (alone - 8 * WEIGHTS) / 4


def test_two_axes_hold_a_columns_weights_and_a_rows_outputs_of_them() -> None:
    profile = profile_of(GRAPH, [1e6] * 4)
    filters = kept(profile, Plan.filters(GRAPH, [1, 1, 0, 0], profile.cluster, 4))
    held = kept(profile, Plan.grid(GRAPH, [3, 1], [1, 1], profile.cluster, 4))
    gradients = 4 * WEIGHTS / 2
    assert held[0] - gradients < filters[0] and held[2] < held[0] and held[0] + held[2] > filters[0]


def test_weights_that_two_calls_share_are_held_once() -> None:
    again = dataclasses.replace(GRAPH.layers[4], name="head:2", shared_with=4)
    twice = LayerGraph((*GRAPH.layers, again), GRAPH.dtype, (4, 5))
    held = [kept(profile_of(graph, [1e6]), Plan.single(graph, 0, cluster_of(1), 4))[0] for graph in (GRAPH, twice)]
    assert held[1] - held[0] == 4 * 4 * 5


def test_a_tensor_that_no_backward_pass_needs_is_not_kept() -> None:
    held = [kept(profile_of(graph, [1e6]), Plan.single(graph, 0, cluster_of(1), 4))[0] for graph in (GRAPH, frozen(GRAPH))]
    assert held[1] == 4 * (WEIGHTS + 4 * 5) < held[0]


def test_scores_of_all_pairs_of_positions_are_kept_whole_by_each_device_and_by_samples_where_the_batch_is_split() -> None:
    graph = attention_net()
    profile, index = profile_of(graph, [1e6, 1e6]), next(i for i, layer in enumerate(graph.layers) if layer.kind == "Attention")
    scores, output = 4 * 4 * 12 * 12, 4 * 4 * 12 * 8
    alone, split = scores + output, [scores + output * 3 / 4, scores + output / 4]  # the output is the residual weight's input
    backward = 3 * scores + 4 * output  # gradients of the scores twice and their product, of the output, and of the three inputs
    expected = [
        (Plan.single(graph, 0, profile.cluster, 4), [alone], [backward]),
        (Plan.filters(graph, [3, 1], profile.cluster, 4), split, [3 * scores + 3 * output, 3 * scores + output]),
        (Plan.batch(graph, [3, 1], profile.cluster, 4), [alone * 3 / 4, alone / 4], [backward * 3 / 4, backward / 4]),
    ]
    for plan, kept_bytes, temporary in expected:
        held, entry = LayerMemory(NetworkMemory(profile), plan.stages[0]), plan.stages[0].layouts[index]
        assert held.layer_bytes(entry).tolist() == kept_bytes, plan.strategy
        assert held.temporary_bytes(entry).tolist() == temporary, plan.strategy
        assert held.in_flight_bytes(entry).tolist() == ([scores] * 2 if entry.layout == "split" else [0] * len(kept_bytes))
    still = NetworkMemory(profile_of(frozen(graph), [1e6]))
    plan = Plan.single(graph, 0, profile.cluster, 4)
    assert LayerMemory(still, plan.stages[0]).layer_bytes(plan.stages[0].layouts[index]).tolist() == [0]


def test_an_input_that_is_brought_to_a_layer_is_kept_there_and_not_where_it_came_from() -> None:
    profile = profile_of(GRAPH, [1e6, 1e6])
    pairs, gather = (Plan.filters(GRAPH, [1, 1], profile.cluster, 4, pairing) for pairing in ("pairs", "gather"))
    held = LayerMemory(NetworkMemory(profile), gather.stages[0])
    second = gather.stages[0].layouts[2]
    brought = held.layer_bytes(second) - held.weights(second, held.memory.weight_bytes) - held.moved_bytes(2, output_of(second))
    assert (brought == 4 * 4 * 9 * 9 * 12).all() and kept(profile, gather)[0] > kept(profile, pairs)[0]


def test_a_layer_whose_neighbours_are_not_known_keeps_at_least_what_it_keeps_among_them() -> None:
    profile = profile_of(GRAPH, [1e6, 1e6])
    stage = Plan.filters(GRAPH, [1, 1], profile.cluster, 4).stages[0]
    memory = NetworkMemory(profile)
    among, alone = LayerMemory(memory, stage), LayerMemory(memory, dataclasses.replace(stage, layouts=()))
    for entry in stage.layouts:
        assert np.all(alone.layer_bytes(entry) >= among.layer_bytes(entry)), entry.name
        assert alone.temporary_bytes(entry).tolist() == among.temporary_bytes(entry).tolist()
