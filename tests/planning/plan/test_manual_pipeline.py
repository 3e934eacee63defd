from __future__ import annotations

import dataclasses
import json
import pathlib
import re
from typing import Any

import pytest

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.plan.plan import Plan
from tests.planning.layout.test_blocks import shared_net
from tests.planning.networks import Net, cluster_of, pair_net

FIVE = cluster_of(5)
GRAPH = pair_net()


def typed(**changes: Any) -> Plan:
    """Return two stages of two devices and one, but for changes."""
    given = {"starts": ["first", "second"], "devices": [[0, 1], [2]], "shares": [[5, 2], [1]], "batch_size": 8, "microbatches": 4}
    return Plan.pipeline(GRAPH, cluster=FIVE, **{**given, **changes})


def test_what_is_typed_is_what_the_plan_says(tmp_path: pathlib.Path) -> None:
    plan = typed(schedule="fill_drain", recompute=True)
    assert (plan.strategy, plan.schedule, plan.microbatches, plan.recompute, plan.replicas) == ("pipeline", "fill_drain", 4, True, ())
    assert [(stage.layers, stage.devices) for stage in plan.stages] == [((0, 1), (0, 1)), ((2, 3, 4), (2,))]
    plan.check(GRAPH)
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == plan


def test_layers_and_devices_are_named_by_index_too() -> None:
    for starts in (["input", "second"], [0, 2], [1, "second"]):
        assert typed(starts=starts, devices=[["worker:0", 1], ["worker:2"]]) == typed()


def test_a_device_may_be_in_two_stages_that_are_interleaved() -> None:
    plan = typed(starts=["first", "second", "head"], devices=[[0], [1], [0]], shares=[[1]] * 3, schedule="interleaved")
    assert [stage.devices for stage in plan.stages] == [(0,), (1,), (0,)]


TURNS = 'use schedule="interleaved", or use device 1 (worker:1), which is in none'
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no stage": ({"starts": []}, "starts: are none, must name the layer that each stage begins with, the first 'first' (layer 1)"),
    "more stages than layers": (
        {"starts": range(1, 7), "devices": [[0]] * 6, "shares": [[1]] * 6},
        "starts: are 6 stages, the network has 4 layers after its inputs; give 4 at most",
    ),
    "no such name": ({"starts": ["first", "secnd"]}, "starts[1]: is 'secnd', the network has no such layer; the nearest is 'second'"),
    "no such index": ({"starts": [1, 5]}, "starts[1]: is 5, the network has the layers 0 to 4"),
    "no name": ({"starts": ["first", 2.0]}, "starts[1]: is 2.0, must be a layer's name or index"),
    "no order": (
        {"starts": ["first", "head", "second"]},
        "starts[2]: is 'second' (layer 2), not after 'head' (layer 4); stages run in the order of the layers, such as 'first', 'second', ",
    ),
    "begins late": (
        {"starts": ["second", "head"]},
        "starts[0]: is 'second' (layer 2), the first stage begins with the network, at 'first' (layer 1)",
    ),
    "nothing but inputs": (
        {"starts": ["input", "first"]},
        "starts[1]: is 'first' (layer 1), which leaves stage 0 nothing but inputs; the first possible is 'second' (layer 2)",
    ),
    "groups missing": ({"devices": [[0, 1]]}, "devices: are for 1 stages, starts begin 2; give one list a stage"),
    "shares missing": ({"shares": [[5, 2]]}, "shares: are for 1 stages, starts begin 2; give one list a stage"),
    "zero devices": (
        {"devices": [[0, 1], []]},
        "devices[1]: are a group of zero devices, stage 1 needs one at least; give it one, or leave out starts[1] and join its layers",
    ),
    "no such device": ({"devices": [[0, 1], [9]]}, "devices[1]: there is no device 9, the cluster has 5 "),
    "a device twice": ({"devices": [[0, 0], [2]]}, "devices[0]: name worker:0 (device 0) twice; name each once"),
    "several stages": (
        {"devices": [[0, 2], [2]]},
        f"devices: have worker:2 (device 2) in stages 0, 1, which schedule 1f1b does not allow; {TURNS}",
    ),
    "share missing": ({"shares": [[5], [1]]}, "shares[0]: are 1, stage 0 has 2 devices; give one share a device"),
    "zero shares": ({"shares": [[5, 2], [0]]}, "shares[1]: shares are [0], at least one must be above zero"),
    "no shares": ({"shares": [[5, 2], ["a"]]}, "shares[1]: shares are ['a'], each must be a number"),
    "replicas that devices do not fit": (
        {"devices": [[0, 1, 2], [3, 4]], "replicas": [5, 3]},
        "devices[0]: are 3, 2 replicas need as many devices each; give 2 or 4",
    ),
    "shares of all replicas": (
        {"devices": [[0, 1], [3, 4]], "shares": [[1, 1], [1]], "replicas": [5, 3]},
        "shares[0]: are 2, stage 0 has 1 devices in each replica; give one share a device",
    ),
    "replicas that do not sum": ({"replicas": [5, 4]}, "replicas: take [5, 4] samples, must be 1 or more each and sum to the batch size 8"),
    "a replica of none": ({"replicas": [8, 0]}, "replicas: take [8, 0] samples, must be 1 or more each and sum to the batch size 8"),
    "more microbatches than samples": ({"microbatches": 9}, "microbatches: are 9, a batch of 8 samples has 8 at most"),
    "no microbatch": ({"microbatches": 0}, "microbatches: are 0, must be at least 1"),
    "half a microbatch": ({"microbatches": 1.5}, "microbatches: are 1.5, must be a whole number"),
    "no batch": ({"batch_size": 0, "microbatches": 1}, "batch_size: is 0, must be at least 1"),
    "no schedule": ({"schedule": "gpipe"}, "schedule: is 'gpipe', must be one of synchronous, fill_drain, 1f1b, interleaved"),
    "no split": ({"split": "layers"}, "split: is 'layers', must be one of filters, batch"),
}


@pytest.mark.parametrize("changes, fault", WRONG.values(), ids=WRONG)
def test_what_is_impossible_is_named_with_what_is_possible(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(PlanError, match="the pipeline has [0-9]+ faults?: .*correct them") as caught:
        typed(**changes)
    assert fault in str(caught.value)


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(PlanError, match="the pipeline has 5 faults: ") as caught:
        typed(starts=["first", "nowhere"], devices=[[0], []], shares=[[1], [1]], microbatches=99, split="rows")
    for part in ("starts[1]: ", "devices[1]: ", "shares[1]: ", "microbatches: ", "split: "):
        assert part in str(caught.value)


def test_calls_of_one_layer_are_not_cut_apart() -> None:
    message = (
        "starts[1]: is 'between' (layer 3), which lies between 'both' (layer 2) and 'both:2' (layer 4), which share their variables; "
        "begin the stage at 'both' (layer 2) or after 'both:2' (layer 4)"
    )
    with pytest.raises(PlanError, match=re.escape(message)):
        Plan.pipeline(shared_net(), ["enter", "between"], [[0], [1]], [[1], [1]], FIVE, 8)
    for start in ("both", "head"):
        Plan.pipeline(shared_net(), ["enter", start], [[0], [1]], [[1], [1]], FIVE, 8).check(shared_net())


def test_a_network_of_inputs_has_one_stage() -> None:
    assert len(Plan.pipeline(Net((3,)).graph(), [0], [[0]], [[1]], FIVE, 8).stages) == 1


def test_printing_shows_the_way_of_the_batches_and_every_stage() -> None:
    text = str(typed(microbatches=3, recompute=True))
    assert "batch size 8, 1f1b, 3 microbatches of 3 or 2 samples, activations recomputed\n" in text
    assert "\nStage 0 on worker:0, worker:1\n" in text and "\nStage 1 on worker:2\n" in text
    assert "of 2 samples, in flight by stage 3-1\n" in str(dataclasses.replace(typed(), depths=(3, 1)))
    assert "1f1b, replicas of 5 and 3 samples\n" in str(typed(shares=[[1], [1]], devices=[[0, 1], [2, 3]], replicas=[5, 3], microbatches=1))


STAGES = "stages[1]"


def test_a_stage_has_devices_and_layers_of_its_own() -> None:
    plan = typed()
    first, second = plan.stages
    wrong = [
        (dataclasses.replace(second, devices=(1,)), f"{STAGES}.devices: have device 1, which stage 0 has too; only the schedule"),
        (dataclasses.replace(second, layouts=first.layouts), f"{STAGES}.layouts: are for layers [0, 1], must be for [2, 3, 4]"),
        (dataclasses.replace(second, layers=(), layouts=()), f"{STAGES}.layers: are none, a stage must have at least one"),
    ]
    for stage, fault in wrong:
        with pytest.raises(PlanError, match=re.escape(fault)):
            dataclasses.replace(plan, stages=(first, stage))
    with pytest.raises(PlanError, match=r"stages: hold the layers \[2, 3, 4, 0, 1\], must hold every layer once, in order"):
        dataclasses.replace(plan, stages=(second, first))


def test_a_stage_of_a_replicated_pipeline_deals_its_samples_to_the_replicas() -> None:
    plan = typed(shares=[[1], [1]], devices=[[0, 1], [2, 3]], replicas=[5, 3])
    with pytest.raises(PlanError, match=re.escape("stages[0].layouts[0].samples: are [5, 3], the replicas take [4, 4]; no device")):
        dataclasses.replace(plan, replicas=(4, 4))
    with pytest.raises(PlanError, match=re.escape(f"{STAGES}.layouts: split no batch, the replicas take [5, 3] samples of it")):
        dataclasses.replace(plan, stages=(plan.stages[0], typed().stages[1]))


def test_a_plan_that_cuts_calls_apart_does_not_fit() -> None:
    plan = Plan.pipeline(shared_net(), ["enter", "head"], [[0], [1]], [[1], [1]], FIVE, 8)
    document = json.loads(json.dumps(plan.to_json()))
    for part in ("layers", "layouts"):
        document["stages"][1][part].insert(0, document["stages"][0][part].pop())
    message = "layer both:2 of stage 1 shares its variables with both of stage 0; put both into one stage"
    with pytest.raises(PlanError, match=message):
        Plan.from_json(document).check(shared_net())


def test_weights_are_not_mixed_between_stages() -> None:
    plan = typed(split="batch")
    with pytest.raises(PlanError, match="gradient_sync: is 'butterfly_mixing', one stage on one axis must then have layers"):
        dataclasses.replace(plan, gradient_sync="butterfly_mixing")
