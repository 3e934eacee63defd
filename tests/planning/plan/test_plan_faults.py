from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.errors import PlanError
from hetero_mtf.layers.normalization.norm import BatchNormalization
from hetero_mtf.planning.plan.plan import Plan
from tests.planning.networks import cluster_of, pair_net, residual_net
from tests.planning.spoiling import spoilt

GRAPH = pair_net()
FOUR = cluster_of(4)
SHARES = st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any)


def batch_plan(**changes: Any) -> Plan:
    return dataclasses.replace(Plan.batch(GRAPH, [4, 2, 1, 1], FOUR, 8), **changes)


def grid_plan() -> Plan:
    return Plan.grid(GRAPH, [3, 1], [2, 1], FOUR, 8)


def changed(plan: Plan, index: int, **changes: Any) -> Plan:
    (stage,) = plan.stages
    layouts = list(stage.layouts)
    layouts[index] = dataclasses.replace(layouts[index], **changes)
    return dataclasses.replace(plan, stages=(dataclasses.replace(stage, layouts=tuple(layouts)),))


def test_every_layer_of_a_batch_plan_has_the_same_samples_the_input_too() -> None:
    (stage,) = batch_plan().stages
    assert {(e.layout, e.sizes, e.samples, e.batch_axis) for e in stage.layouts} == {("batch", (), (4, 2, 1, 1), "devices")}


def test_a_batch_smaller_than_the_devices_leaves_some_out() -> None:
    (stage,) = Plan.batch(GRAPH, [1, 3, 2, 1], FOUR, 2).stages
    assert stage.devices == (1, 2) and stage.layouts[0].samples == (1, 1)


def test_one_share_or_one_sample_is_one_device_alone() -> None:
    for plan in (Plan.batch(GRAPH, [0, 0, 5, 0], FOUR, 8), Plan.batch(GRAPH, [1, 1, 2, 1], FOUR, 1)):
        assert plan.stages == Plan.single(GRAPH, 2, FOUR, 8).stages


@pytest.mark.parametrize("batch_size", [0, -1, 2.0, True, None])
def test_a_batch_that_cannot_be_dealt_out_is_refused(batch_size: Any) -> None:
    for make in (
        lambda: Plan.batch(GRAPH, [1] * 4, FOUR, batch_size),
        lambda: Plan.hybrid(GRAPH, [1] * 4, FOUR, batch_size),
        lambda: Plan.grid(GRAPH, [1, 1], [1, 1], FOUR, batch_size),
    ):
        with pytest.raises(PlanError, match=f"the batch size is {batch_size}; use a whole number, at least 1"):
            make()


@pytest.mark.slow
@given(SHARES, st.integers(1, 20))
def test_every_typed_plan_fits_its_network_and_survives_json(shares: list[int], batch_size: int) -> None:
    for graph in (GRAPH, residual_net()):
        for plan in (
            Plan.batch(graph, shares, FOUR, batch_size),
            Plan.hybrid(graph, shares, FOUR, batch_size, border="all_to_all"),
            Plan.grid(graph, [shares[0] + 1, shares[1]], [shares[2] + 1, shares[3]], FOUR, batch_size),
        ):
            plan.check(graph)
            assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
            assert all(sum(e.samples) in (0, batch_size) for e in plan.stages[0].layouts)


@given(st.data(), st.sampled_from([batch_plan(), grid_plan()]))
def test_whatever_is_spoilt_in_a_file_is_one_sentence(data: st.DataObject, plan: Plan) -> None:
    try:
        assert isinstance(str(Plan.from_json(spoilt(json.loads(json.dumps(plan.to_json())), data))), str)
    except PlanError as fault:
        assert str(fault).endswith("; plan again with hetero-mtf plan")


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"samples": ()}, "[1].samples: are 0, axis devices has 4 positions"),
        ({"samples": (4, 4)}, "[1].samples: are 2, axis devices has 4 positions"),
        ({"samples": (9, -1, 0, 0)}, "[1].samples: are [9, -1, 0, 0], must be zero or more and sum to at least 1"),
        ({"samples": (4, 2, 1, 0)}, "[1].samples: are [4, 2, 1, 0], must sum to the batch size 8"),
        ({"batch_axis": "rows"}, "[1].batch_axis: is 'rows', the stage has devices"),
        ({"sizes": (12,)}, "[1].sizes: are [12], must be empty for a batch layer"),
        ({"layout": "replicated"}, "[1].samples: are [4, 2, 1, 1], must be empty for a replicated layer"),
        (
            {"layout": "column", "sizes": (9, 1, 1, 1)},
            "[1].batch_axis: is 'devices', which is the axis of the sizes too; give samples and sizes",
        ),
    ],
)
def test_samples_that_do_not_fit_the_mesh_are_refused(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(PlanError, match=re.escape(fault)):
        changed(batch_plan(), 1, **changes)


def test_samples_and_sizes_on_two_axes_need_not_be_as_many() -> None:
    plan = Plan.grid(GRAPH, [3, 1], [1, 1, 1], cluster_of(6), 8)
    assert [len(getattr(plan.stages[0].layouts[1], name)) for name in ("samples", "sizes")] == [2, 3]


def test_a_layer_that_mixes_samples_needs_the_whole_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = residual_net()
    batch, grid = Plan.batch(graph, [1] * 4, FOUR, 8), Plan.grid(graph, [1, 1], [1, 1], FOUR, 8)
    monkeypatch.setattr(BatchNormalization, "mixes_samples", True, raising=False)
    message = "is batch, layer block_norm (BatchNormalization) can be replicated, space, split; plan again"
    with pytest.raises(PlanError, match=re.escape(message)):
        batch.check(graph)
    norm = next(i for i, layer in enumerate(graph.layers) if layer.name == "block_norm")
    split = changed(grid, norm, layout="split", sizes=(4, 4), axis="filters")
    with pytest.raises(PlanError, match=re.escape("are [4, 4], layer block_norm (BatchNormalization) needs the whole batch; plan again")):
        split.check(graph)
    for plan in (Plan.batch(graph, [1] * 4, FOUR, 8), Plan.grid(graph, [1, 1], [1, 1], FOUR, 8), Plan.hybrid(graph, [1] * 4, FOUR, 8)):
        plan.check(graph)
        assert not plan.stages[0].layouts[norm].samples


def test_split_layers_that_meet_lie_along_one_axis() -> None:
    plan = Plan.grid(GRAPH, [1, 1], [1, 1], FOUR, 8)
    second = changed(plan, 2, axis="batch", samples=(), batch_axis="devices")
    with pytest.raises(PlanError, match="reads first split as .* along filters, not batch, they must agree"):
        second.check(GRAPH)


def test_weights_are_mixed_only_where_layers_split_the_batch_alike_on_one_axis() -> None:
    assert Plan.batch(GRAPH, [1] * 4, FOUR, 8, gradient_sync="butterfly_mixing").gradient_sync == "butterfly_mixing"
    hybrid = Plan.hybrid(GRAPH, [1] * 4, FOUR, 8, gradient_sync="butterfly_mixing")
    first, *others = hybrid.stages[0].layouts
    unlike = dataclasses.replace(first, samples=(5, 1, 1, 1))
    stage = dataclasses.replace(hybrid.stages[0], layouts=(unlike, *others))
    apart = dataclasses.replace(hybrid, stages=(stage,), gradient_sync="all_reduce")
    for plan in (grid_plan(), Plan.filters(GRAPH, [1] * 4, FOUR, 8), Plan.single(GRAPH, 0, FOUR, 8), apart):
        message = (
            "gradient_sync: is 'butterfly_mixing', one stage on one axis must then have layers that split the batch, all into the same"
        )
        with pytest.raises(PlanError, match=message):
            dataclasses.replace(plan, gradient_sync="butterfly_mixing")
    with pytest.raises(PlanError, match="gradient_sync: is 'gossip', must be one of all_reduce, butterfly_mixing"):
        batch_plan(gradient_sync="gossip")


def test_printing_shows_samples_units_or_both() -> None:
    assert re.search(r"^  first +batch +4 +2 +1 +1$", str(batch_plan()), re.MULTILINE)
    assert "batch size 8, synchronous\n" in str(batch_plan())
    assert "batch size 8, butterfly_mixing, which is not synchronous\n" in str(batch_plan(gradient_sync="butterfly_mixing"))
    text = str(grid_plan())
    assert re.search(r"^  input +batch +6 +6 +2 +2$", text, re.MULTILINE)
    assert re.search(r"^  first +column +6 x 8 +6 x 4 +2 x 8 +2 x 4$", text, re.MULTILINE)
