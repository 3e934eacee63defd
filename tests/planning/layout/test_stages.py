from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.planning.layout.arrangement import channels
from hetero_mtf.planning.layout.records import LayerLayout, Stage
from hetero_mtf.planning.layout.stages import Group, group_stage, part_of, transfers
from hetero_mtf.planning.plan.plan import Plan
from tests.planning.layout.test_blocks import concatenating_net, shared_net, two_output_net
from tests.planning.networks import cluster_of, pair_net, residual_net

GRAPH = residual_net()  # input, stem, block_a, block_norm, block_relu, block_b, shortcut, sum, pool, head


def layouts(stage: Stage) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {entry.name: (entry.layout, entry.sizes or entry.samples) for entry in stage.layouts}


def test_a_part_reads_what_others_make_as_inputs_and_gives_what_others_read() -> None:
    part = part_of(GRAPH, 5, 8)
    assert [(layer.name, layer.kind, layer.inputs) for layer in part.graph.layers] == [
        ("stem", "InputLayer", ()),
        ("block_relu", "InputLayer", ()),
        ("block_b", "Conv2D", (1,)),
        ("shortcut", "Conv2D", (0,)),
        ("sum", "Add", (2, 3)),
    ]
    assert part.layers == (5, 6, 7) and part.boundary_inputs == 2 and part.graph.outputs == (4,)
    assert part_of(GRAPH, 1, 5).graph.outputs == (1, 4)  # the stem is read further on


def test_the_whole_network_is_a_part_of_itself() -> None:
    for graph in (GRAPH, pair_net(), shared_net(), two_output_net()):
        assert part_of(graph, 0, len(graph.layers)).graph == graph


def test_calls_outside_own_their_variables_inside() -> None:
    assert part_of(shared_net(), 3, 6).graph.layers[2].shared_with is None
    assert part_of(shared_net(), 2, 6).graph.layers[3].shared_with == 1


def test_what_a_stage_reads_from_others_arrives_whole() -> None:
    first, second = Plan.pipeline(GRAPH, ["stem", "block_norm"], [[0, 1], [2, 3]], [[5, 2], [1, 1]], cluster_of(4), 8).stages
    assert layouts(first) == {"input": ("replicated", ()), "stem": ("column", (6, 2)), "block_a": ("row", (6, 2))}
    assert layouts(second)["block_norm"] == ("replicated", ()) and layouts(second)["block_b"] == ("column", (4, 4))
    assert layouts(second)["sum"] == ("split", (4, 4)) and layouts(second)["head"] == ("row", (4, 4))


def test_a_flatten_that_another_stage_reads_keeps_no_split() -> None:
    (whole,) = Plan.filters(pair_net(), [1, 1], cluster_of(2), 8, pairing="gather").stages
    for start in ("flatten", "head"):
        plan = Plan.pipeline(pair_net(), ["first", start], [[0, 1], [2, 3]], [[1, 1], [1, 1]], cluster_of(4), 8)
        plan.check(pair_net())
        assert layouts(plan.stages[start == "flatten"])["flatten"] == ("replicated", ())
    assert channels(pair_net())[3] == 10 and layouts(whole)["flatten"][0] == "replicated"


def test_one_stage_is_the_plan_without_stages() -> None:
    four = cluster_of(4)
    pairs = [
        (Plan.pipeline(GRAPH, [0], [range(4)], [[4, 2, 1, 0]], four, 8), Plan.filters(GRAPH, [4, 2, 1, 0], four, 8)),
        (Plan.pipeline(GRAPH, ["stem"], [range(4)], [[4, 2, 1, 0]], four, 8, split="batch"), Plan.batch(GRAPH, [4, 2, 1, 0], four, 8)),
        (Plan.pipeline(GRAPH, ["stem"], [[2]], [[1]], four, 8), Plan.single(GRAPH, 2, four, 8)),
        (Plan.pipeline(GRAPH, ["stem"], [range(4)], [[3, 1]], four, 8, replicas=[5, 3]), Plan.grid(GRAPH, [5, 3], [3, 1], four, 8)),
    ]
    for pipeline, other in pairs:
        assert pipeline.stages == other.stages


def test_replicas_slice_the_batch_of_every_stage_alike() -> None:
    plan = Plan.pipeline(pair_net(), ["first", "second"], [[0, 1, 2, 3], [4, 5]], [[2, 1], [1]], cluster_of(6), 8, replicas=[5, 3])
    first, second = plan.stages
    assert first.axes == (("batch", 2), ("filters", 2)) and first.devices == (0, 1, 2, 3)
    assert {entry.samples for stage in plan.stages for entry in stage.layouts} == {(5, 3)}
    assert first.layouts[1].sizes == (8, 4) and second.axes == (("devices", 2),) and second.devices == (4, 5)


def test_replicas_of_groups_that_split_the_batch_are_one_axis() -> None:
    plan = Plan.pipeline(
        pair_net(), ["first", "second"], [[0, 1, 2, 3], [4, 5]], [[2, 1], [1]], cluster_of(6), 9, replicas=[6, 3], split="batch"
    )
    assert [stage.layouts[-1].samples for stage in plan.stages] == [(4, 2, 2, 1), (6, 3)]


def test_replicas_of_a_stage_with_nothing_to_split_take_the_largest_member() -> None:
    stage = group_stage(pair_net(), 3, 4, Group(((0, 1), (2, 3)), (1.0, 2.0)), (5, 3))
    assert stage.devices == (1, 3) and stage.layouts == (LayerLayout(3, "flatten", "batch", samples=(5, 3)),)


def test_a_member_without_a_share_is_left_out() -> None:
    plan = Plan.pipeline(pair_net(), ["first", "second"], [[0, 1, 2], [3, 4]], [[2, 0, 1], [0, 1]], cluster_of(5), 8)
    assert [stage.devices for stage in plan.stages] == [(0, 2), (4,)]


def test_an_output_goes_straight_to_every_stage_that_reads_it_once() -> None:
    plan = Plan.pipeline(GRAPH, ["stem", "block_norm", "shortcut"], [[0], [1], [2]], [[1]] * 3, cluster_of(3), 8)
    assert transfers(GRAPH, plan.stages) == ((1, 0, 2), (2, 0, 1), (5, 1, 2))
    assert transfers(GRAPH, Plan.single(GRAPH, 0, cluster_of(1), 8).stages) == ()


@pytest.mark.fast("pair_net")
@pytest.mark.parametrize("make", [pair_net, residual_net, concatenating_net, two_output_net])
@given(st.data())
def test_every_cut_anywhere_is_a_plan_that_fits(make: object, data: st.DataObject) -> None:
    graph = make()  # type: ignore[operator]
    count = data.draw(st.integers(1, min(4, len(graph.layers) - 1)))
    starts = sorted(data.draw(st.permutations(range(2, len(graph.layers))))[: count - 1])
    replicas = data.draw(st.sampled_from([(), (5, 3), (1, 3, 4)]))
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
    members = iter(range(sum(sizes) * max(len(replicas), 1)))
    devices = [[next(members) for _ in range(size * max(len(replicas), 1))] for size in sizes]
    shares = [data.draw(st.lists(st.integers(0, 4), min_size=size, max_size=size).filter(any)) for size in sizes]
    split = data.draw(st.sampled_from(["filters", "batch"]))
    cluster = cluster_of(sum(sizes) * max(len(replicas), 1))
    plan = Plan.pipeline(graph, [1, *starts], devices, shares, cluster, 8, 4, split=split, replicas=replicas)
    plan.check(graph)
    assert Plan.from_json(plan.to_json()) == plan
    assert [stage.layers[0] for stage in plan.stages] == [0, *starts]
    for stage, group in zip(plan.stages, devices):
        assert set(stage.devices) <= set(group)
    assert str(plan).count("\nStage ") == count
