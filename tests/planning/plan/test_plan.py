from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.errors import HeteroError, PlanError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.layout.records import BUCKET_BYTES, Alternative, CollectiveRule, DevicePart, LayerLayout, Prediction
from hetero_mtf.planning.plan.plan import Plan
from tests.planning.networks import Net, cluster_of, pair_net, residual_net
from tests.planning.spoiling import spoilt

THREE = cluster_of(3)


def filters_plan(**changes: Any) -> Plan:
    return dataclasses.replace(Plan.filters(pair_net(), [7, 4, 1], THREE, 8), **changes)


def document(**changes: Any) -> dict[str, Any]:
    return {**json.loads(json.dumps(filters_plan().to_json())), **changes}


def sizes_of(plan: Plan) -> dict[str, tuple[int, ...]]:
    return {entry.name: entry.sizes for entry in plan.stages[0].layouts}


def test_typed_shares_split_columns_and_rows_alike() -> None:
    plan = filters_plan()
    assert sizes_of(plan) == {"input": (), "first": (7, 4, 1), "second": (7, 4, 1), "flatten": (), "head": (3, 1, 1)}
    assert plan.stages[0].axes == (("devices", 3),) and plan.stages[0].devices == (0, 1, 2)


def test_a_device_without_a_share_is_left_out_of_the_mesh() -> None:
    plan = Plan.filters(pair_net(), [2, 0, 1], THREE, 8)
    assert plan.stages[0].devices == (0, 2) and plan.devices == ("worker:0", "worker:1", "worker:2")
    assert sizes_of(plan)["first"] == (8, 4)


def test_a_device_that_is_zero_everywhere_by_rounding_is_left_out_too() -> None:
    net = Net()
    net.conv("narrow", 2)
    assert Plan.filters(net.graph(), [5, 4, 1], THREE, 8).stages[0].devices == (0, 1)


def test_one_positive_share_is_that_device_alone() -> None:
    plan = Plan.filters(pair_net(), [0, 3, 0], THREE, 8)
    assert plan.stages == Plan.single(pair_net(), 1, THREE, 8).stages


def test_a_network_with_nothing_to_split_stays_on_the_largest_share() -> None:
    net = Net()
    net.add("Flatten", "flatten")
    assert Plan.filters(net.graph(), [1, 3, 1], THREE, 8).stages[0].devices == (1,)


def test_gathering_splits_every_mixing_layer_over_its_own_channels() -> None:
    assert sizes_of(Plan.filters(pair_net(), [1, 2, 1], THREE, 8, pairing="gather"))["second"] == (2, 6, 2)


def test_the_even_plan_deals_filters_equally() -> None:
    plan = Plan.equal(pair_net(), THREE, 8)
    assert plan.strategy == "equal" and sizes_of(plan)["first"] == (4, 4, 4)


def test_a_single_device_is_named_by_index_or_name() -> None:
    assert Plan.single(pair_net(), "worker:2", THREE, 8) == Plan.single(pair_net(), 2, THREE, 8)
    assert Plan.single(pair_net(), 2, THREE, 8).stages[0].devices == (2,)


@pytest.mark.parametrize("device", [3, -1, "gpu:0"])
def test_a_device_that_does_not_exist_is_refused(device: int | str) -> None:
    message = f"there is no device {device!r}, the cluster has 3 (worker:0, worker:1, worker:2); use an index from 0 to 2 or a name"
    with pytest.raises(PlanError, match=re.escape(message)):
        Plan.single(pair_net(), device, THREE, 8)


def test_wrong_share_counts_are_refused() -> None:
    message = "there are 2 shares [1, 2] for 3 devices (worker:0, worker:1, worker:2); give one share a device"
    with pytest.raises(PlanError, match=re.escape(message)):
        Plan.filters(pair_net(), [1, 2], THREE, 8)


def test_shares_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(PlanError, match=r"shares are \['a', 1, 1\], each must be a number; give one share a device"):
        Plan.filters(pair_net(), ["a", 1, 1], THREE, 8)  # type: ignore[list-item]


def test_a_batch_of_none_is_refused() -> None:
    with pytest.raises(PlanError, match="the plan has 1 fault: batch_size: is 0, must be at least 1; correct them"):
        Plan.single(pair_net(), 0, THREE, 0)


def test_an_unknown_pairing_is_refused() -> None:
    with pytest.raises(PlanError, match="pairing 'rows' is unknown; use one of pairs, gather"):
        Plan.filters(pair_net(), [1, 1, 1], THREE, 8, pairing="rows")


def test_processors_on_one_device_may_share_its_name() -> None:
    assert Plan.equal(pair_net(), cluster_of(3, same_device=True), 8).devices == ("cpu:0",) * 3


def test_anything_with_devices_serves_as_a_cluster() -> None:
    assert Plan.equal(pair_net(), SimpleNamespace(devices=list(THREE.devices)), 8) == Plan.equal(pair_net(), THREE, 8)


def test_a_plan_read_back_is_the_same_plan(tmp_path: pathlib.Path) -> None:
    part = DevicePart("worker:0", 0.1, 0.2, 0.3, 4)
    predicted = Prediction(0.6, 0.1, 0.2, 0.3, (part,))
    others = (Alternative("equal", 0.9, "slower"), Alternative("single", None, "no device fits"))
    rules = (
        CollectiveRule("all_reduce", "two_level", 100, leaders="butterfly"),
        CollectiveRule("all_reduce", "ring", None, (0.5, 0.25, 0.25)),
    )
    plan = filters_plan(predicted=predicted, alternatives=others, collectives=rules, microbatches=2, schedule="fill_drain", bucket_bytes=9)
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == plan


def test_a_plan_without_a_bucket_size_has_the_default_and_one_below_zero_is_a_fault() -> None:
    earlier = document()
    del earlier["bucket_bytes"]
    assert Plan.from_json(earlier).bucket_bytes == BUCKET_BYTES
    with pytest.raises(PlanError, match="bucket_bytes: is -1, must be 0 or more"):
        Plan.from_json(document(bucket_bytes=-1))


def test_plans_of_other_buckets_are_built_otherwise() -> None:
    plan = filters_plan()
    assert dataclasses.replace(plan, bucket_bytes=0).built_from != plan.built_from


@pytest.mark.slow
@given(st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any), st.sampled_from(["pairs", "gather"]))
def test_every_typed_plan_fits_its_network_and_survives_json(shares: list[int], pairing: str) -> None:
    for graph in (pair_net(), residual_net()):
        plan = Plan.filters(graph, shares, THREE, 8, pairing=pairing)
        plan.check(graph)
        assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_every_fault_of_a_file_is_named_with_its_path(tmp_path: pathlib.Path) -> None:
    wrong = document(batch_size=0, dtype="float16", colour="red", schedule="whenever")
    wrong["stages"][0]["layouts"][1]["sizes"] = [7, -4, 1]
    wrong["stages"][0]["layouts"][2]["sizes"] = [7, "4", 1]
    wrong["stages"][0]["devices"] = [0, 1, 5]
    del wrong["strategy"]
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(wrong))
    with pytest.raises(PlanError) as caught:
        Plan.load(path)
    text = str(caught.value)
    assert text.startswith(f"{path} has 8 faults: ") and text.endswith("; plan again with hetero-mtf plan")
    for fault in (
        "strategy: is missing",
        "colour: is not known",
        "batch_size: is 0, must be at least 1",
        "dtype: is 'float16', must be float32 or float64",
        "schedule: is 'whenever', must be one of synchronous",
        "stages[0].layouts[1].sizes: are [7, -4, 1], must be zero or more and sum to at least 1",
        "stages[0].layouts[2].sizes[1]: is '4', must be a whole number",
        "stages[0].devices: names device 5, the plan has 3 devices",
    ):
        assert fault in text


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (("digest",), "", "digest: is empty, must name a network"),
        (("strategy",), "", "strategy: is empty, must name how the plan was made"),
        (("devices",), [], "devices: are none, must name at least one"),
        (("devices",), "worker:0", "devices: is 'worker:0', must be a list"),
        (("microbatches",), 0, "microbatches: are 0, must be at least 1"),
        (("microbatches",), True, "microbatches: is True, must be a whole number"),
        (("recompute",), 1, "recompute: is 1, must be true or false"),
        (("replicas",), [3, 3], "replicas: take [3, 3] samples, must be 1 or more each and sum to the batch size 8"),
        (("collectives",), {"all_reduce": "ring"}, "collectives: is {'all_reduce': 'ring'}, must be a list"),
        (("collectives",), ["ring"], "collectives[0]: is 'ring', must be an object"),
        (("collectives",), [{"collective": "all_reduce", "method": "pigeon"}], "collectives[0].method: is 'pigeon', must be one of ring, "),
        (("predicted",), 3, "predicted: is 3, must be an object"),
        (("alternatives",), [{"strategy": "x", "step_s": -1, "reason": ""}], "alternatives[0].step_s: is -1, must be zero or more"),
        (("stages",), [], "stages: hold the layers [], must hold every layer once, in order"),
        (("stages", 0, "devices"), [0, 0, 1], "stages[0].devices: are [0, 0, 1], must be at least one and differ"),
        (("stages", 0, "axes"), [["devices", 2]], "stages[0].axes: are {'devices': 2}, must differ and multiply to 3 devices"),
        (("stages", 0, "axes"), [["devices"]], "stages[0].axes[0]: is ['devices'], must be a list of 2 entries"),
        (
            ("stages", 0, "layouts", 1, "layout"),
            "diagonal",
            "[1].layout: is 'diagonal', must be one of replicated, batch, column, row, split",
        ),
        (("stages", 0, "layouts", 0, "sizes"), [1], "stages[0].layouts[0].sizes: are [1], must be empty for a replicated layer"),
        (("stages", 0, "layouts", 1, "axis"), "batch", "stages[0].layouts[1].axis: is 'batch', the stage has devices"),
        (("stages", 0, "layouts", 1, "sizes"), [12], "stages[0].layouts[1].sizes: are 1, axis devices has 3 positions"),
        (("stages", 0, "layouts", 1, "layer"), 2, "stages[0].layouts: are for layers [0, 2, 2, 3, 4], must be for [0, 1, 2, 3, 4]"),
    ],
)
def test_a_fault_in_a_file_is_named_with_its_path(path: tuple[Any, ...], value: Any, fault: str) -> None:
    wrong = document()
    inside: Any = wrong
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = value
    with pytest.raises(PlanError) as caught:
        Plan.from_json(wrong)
    assert fault in str(caught.value)


@given(st.data())
def test_whatever_is_spoilt_in_a_file_is_one_sentence(data: st.DataObject) -> None:
    part = DevicePart("worker:0", 0.1, 0.2, 0.3, 4)
    others = (Alternative("equal", 0.9, "slower"),)
    whole = filters_plan(predicted=Prediction(0.6, 0.1, 0.2, 0.3, (part,)), alternatives=others, replicas=(8,))
    wrong = spoilt(json.loads(json.dumps(whole.to_json())), data)
    try:
        assert isinstance(str(Plan.from_json(wrong)), str)
    except PlanError as fault:
        assert str(fault).endswith("; plan again with hetero-mtf plan")


def test_a_prediction_that_is_no_time_or_names_a_stranger_is_refused() -> None:
    part = DevicePart("toaster", 0.0, -1.0, 0.0)
    with pytest.raises(PlanError) as caught:
        filters_plan(predicted=Prediction(-0.5, 0.0, 0.0, 0.0, (part,)))
    assert "predicted.step_s: is -0.5, must be zero or more" in str(caught.value)
    assert "predicted.parts[0].communication_s: is -1, must be zero or more" in str(caught.value)
    assert "predicted.parts[0].device: is 'toaster', the plan has worker:0, worker:1, worker:2" in str(caught.value)


def test_a_number_that_is_not_finite_is_refused() -> None:
    wrong = document(alternatives=[{"strategy": "x", "step_s": float("nan"), "reason": ""}])
    with pytest.raises(PlanError, match=r"alternatives\[0\].step_s: is nan, must be a finite number"):
        Plan.from_json(wrong)


def test_a_file_of_another_kind_or_version_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "plan.json"
    for change in ({"kind": "profile"}, {"version": 3}):
        path.write_text(json.dumps(document(**change)))
        with pytest.raises(HeteroError, match="make it again with hetero-mtf plan"):
            Plan.load(path)


def test_a_plan_for_another_structure_is_refused() -> None:
    plan, other = filters_plan(), residual_net()
    message = (
        f"the plan is for a network of 5 layers in float32 (digest {plan.digest}), this model has 10 in float32 "
        f"(digest {other.digest}); plan again with hetero-mtf plan --model ..."
    )
    with pytest.raises(PlanError, match=re.escape(message)):
        plan.check(other)


def test_names_are_not_structure_so_a_clone_fits() -> None:
    graph = pair_net()
    renamed = LayerGraph(tuple(dataclasses.replace(layer, name=f"my_{layer.name}") for layer in graph.layers), graph.dtype)
    filters_plan().check(renamed)


def with_layout(index: int, **changes: Any) -> Plan:
    plan = filters_plan()
    stage = plan.stages[0]
    layouts = list(stage.layouts)
    layouts[index] = dataclasses.replace(layouts[index], **changes)
    return dataclasses.replace(plan, stages=(dataclasses.replace(stage, layouts=tuple(layouts)),))


@pytest.mark.parametrize(
    ("index", "changes", "fault"),
    [
        (4, {"sizes": (3, 1, 0)}, "stages[0].layouts[4].sizes: sums to 4, layer head has 5"),
        (2, {"sizes": (6, 5, 1)}, "layouts[2].sizes: are [6, 5, 1], layer second reads first split as [7, 4, 1], they must agree"),
        (
            3,
            {"layout": "row", "sizes": (1, 1, 1)},
            "stages[0].layouts[3].layout: is row, layer flatten (Flatten) can be batch, replicated, split",
        ),
    ],
)
def test_sizes_and_layouts_that_do_not_fit_the_network_are_refused(index: int, changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(PlanError) as caught:
        with_layout(index, **changes).check(pair_net())
    assert str(caught.value).startswith("the plan does not fit the model, 1 fault: ") and f"{fault}; plan again" in str(caught.value)


def test_printing_names_layers_layouts_sizes_and_what_is_predicted() -> None:
    predicted = Prediction(0.0123, 0.004, 0.008, 0.0003, (DevicePart("worker:0", 0.01, 0.001, 0.0013),))
    text = str(filters_plan(predicted=predicted, alternatives=(Alternative("equal", 0.02, "20.0 ms a step"),)))
    assert re.search(r"^  first +column +7 +4 +1$", text, re.MULTILINE)
    assert re.search(r"^  flatten +replicated +all +all +all$", text, re.MULTILINE)
    assert "Predicted: 12.3 ms/step (forward 4.00 ms, backward 8.00 ms, update 300 us)" in text
    assert "Alternative considered: equal: 20.0 ms a step" in text


def test_planning_loads_neither_tensorflow_nor_keras() -> None:
    code = (
        "import sys, hetero_mtf.planning.choose, hetero_mtf.planning.plan.plan, hetero_mtf.report.table, hetero_mtf.report.progress;"
        "print(sorted({'tensorflow', 'keras', 'mesh_tensorflow'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (result.stdout.strip(), result.stderr) == ("[]", "")


def test_an_entry_of_a_layer_is_compared_by_value() -> None:
    assert LayerLayout(1, "a", "column", (1, 2)) == LayerLayout(1, "a", "column", (1, 2), "devices")
