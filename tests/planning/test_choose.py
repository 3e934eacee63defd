from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.errors import PlanError, ProfileError
from hetero_mtf.planning.choose import STRATEGIES, plan, single
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.link_cost import collective_rules
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.manual import single_stage
from hetero_mtf.planning.layout.records import CollectiveRule
from hetero_mtf.planning.pipeline.plan_prediction import predict_plan
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from tests.planning.networks import in_slabs, pair_net, profile_of, with_rest

GRAPH = pair_net(24, 24, 24)


def unequal(latency_s: float = 1e-6) -> Profile:
    return profile_of(GRAPH, [2e6, 1e6], latency_s)


def four() -> Profile:
    return profile_of(GRAPH, [2e6, 1e6, 1e6, 5e5], 1e-6)


def test_cheap_links_make_auto_take_the_measured_split_and_say_what_lost() -> None:
    made = plan(unequal())
    assert made.strategy == "layers" and made.predicted is not None
    assert [other.strategy for other in made.alternatives] == [
        "single",
        "equal",
        "filters",
        "batch",
        "hybrid",
        "grid",
        "pipeline",
    ]
    by_name = {other.strategy: other for other in made.alternatives}
    grid, pipeline = by_name.pop("grid"), by_name.pop("pipeline")
    assert grid.step_s is None and "needs at least 4 devices" in grid.reason
    assert pipeline.step_s is None and "a pipeline takes" in pipeline.reason and "at least" in pipeline.reason
    for other in by_name.values():
        assert other.step_s is not None and other.step_s > made.predicted.step_s
        times = other.step_s / made.predicted.step_s
        assert f"{'no less than' if times < 1.0005 else f'{times:.2f} times'} strategy layers" in other.reason


def test_dear_links_make_auto_take_the_faster_device_alone() -> None:
    made = plan(unequal(latency_s=10.0))
    assert made.strategy == "single" and made.stages[0].devices == (0,)


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 9), st.floats(0.2, 1.0)), min_size=2, max_size=4))
def test_single_takes_the_device_whose_predicted_step_is_shortest(devices: list[tuple[int, float]]) -> None:
    profile = with_rest(profile_of(GRAPH, [speed * 1e5 for speed, _ in devices], 10.0), lambda device: devices[device][1])
    costs = Costs(profile)
    steps = [predict(costs, single_stage(GRAPH, device)).step_s for device in range(len(devices))]
    found = single(costs)
    assert found.prediction.step_s == steps[found.stage.devices[0]] == pytest.approx(min(steps), rel=1e-12)


@pytest.mark.parametrize("strategy", ["single", "auto"])
def test_the_device_that_is_faster_alone_is_taken_even_if_it_is_slower_beside_others(strategy: str) -> None:
    beside, alone = (4.24e5, 4e5), (1.0, 0.5)
    made = plan(with_rest(profile_of(GRAPH, beside, 10.0), lambda device: alone[device]), strategy=strategy)
    assert made.strategy == "single" and made.stages[0].devices == (1,)


def test_processors_on_one_device_gain_nothing_so_auto_takes_one() -> None:
    assert plan(profile_of(GRAPH, [1e6] * 3, same_device=True)).strategy == "single"


@pytest.mark.fast("batch", "equal", "filters", "single", "space")
@pytest.mark.parametrize("strategy", ["auto", *STRATEGIES])
def test_every_strategy_makes_a_plan_that_fits_and_carries_its_prediction(strategy: str, tmp_path: pathlib.Path) -> None:
    made = plan(in_slabs(four()), batch_size=4, strategy=strategy, optimizer="sgd")
    made.check(GRAPH)
    assert made.predicted is not None and made.predicted.step_s > 0 and made.batch_size == 4
    made.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == made


def test_the_measured_split_is_never_predicted_slower_than_the_equal_one() -> None:
    by_name = {name: plan(unequal(), strategy=name).predicted for name in ("equal", "filters")}
    assert by_name["filters"] is not None and by_name["equal"] is not None
    assert by_name["filters"].step_s <= by_name["equal"].step_s


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(
        PlanError, match="strategy 'magic' is unknown; use one of auto, single, equal, filters, batch, hybrid, grid, space, layers"
    ):
        plan(unequal(), strategy="magic")


def test_another_batch_size_than_measured_is_refused() -> None:
    message = "the profile was measured at batch size 4 and 32 is asked for; calibrate again with --batch-size 32"
    with pytest.raises(ProfileError, match=message):
        plan(unequal(), batch_size=32)


@pytest.mark.parametrize("profile", [None, "profile.json"])
def test_what_is_no_profile_is_refused(profile: Any) -> None:
    with pytest.raises(ProfileError, match=f"the profile is {profile!r}, not a Profile; make one with hm.calibrate or read one with"):
        plan(profile)


def test_a_batch_size_below_one_is_refused() -> None:
    with pytest.raises(PlanError, match="the batch size is 0; use at least 1"):
        plan(unequal(), batch_size=0)


class Adam:
    pass


@pytest.mark.parametrize("optimizer", ["adam", Adam()])
def test_another_optimizer_than_measured_is_refused(optimizer: object) -> None:
    message = "the profile was measured for the optimizer sgd and adam is asked for; calibrate again with adam"
    with pytest.raises(ProfileError, match=message):
        plan(unequal(), optimizer=optimizer)


def test_a_split_is_taken_where_one_device_has_too_little_memory() -> None:
    profile = profile_of(GRAPH, [2e6, 1e6], latency_s=1e4, batch_size=4096)
    alone = plan(profile, strategy="single").predicted
    assert alone is not None
    devices = tuple(dataclasses.replace(d, pool=f"pool{i}") for i, d in enumerate(profile.cluster.devices))
    small = tuple(dataclasses.replace(profile.memory[0], name=f"pool{i}", free_bytes=alone.parts[0].memory_bytes - 1) for i in range(2))
    apart = dataclasses.replace(profile, cluster=dataclasses.replace(profile.cluster, devices=devices, pools=small), memory=small)
    made = plan(apart)
    assert made.strategy != "single"
    reason = next(other.reason for other in made.alternatives if other.strategy == "single")
    assert reason.startswith("needs ") and "of memory pool0, which has" in reason
    with pytest.raises(PlanError, match="the plan by strategy single needs .* bytes short, .*; use a smaller batch or another"):
        plan(apart, strategy="single")


def test_no_memory_at_all_is_one_sentence_with_the_least_shortfall_and_the_layer_that_binds() -> None:
    starved = profile_of(GRAPH, [1e6, 1e6], memory_bytes=1)
    with pytest.raises(PlanError) as fault:
        plan(starved)
    said = str(fault.value)
    alone = plan(profile_of(GRAPH, [1e6, 1e6]), strategy="single").predicted
    assert alone is not None
    short = f"which has 1 B free and is {alone.parts[0].memory_bytes - 1} bytes short, most for layer head ("
    assert said.startswith("no plan fits in memory, the one by strategy single is nearest to it, it needs ") and short in said
    assert all(f"{name} " in said.split("others lack")[1] for name in ("equal", "filters", "batch", "hybrid", "layers"))
    assert said.endswith("); use a smaller batch or network")


@pytest.mark.parametrize("strategy", sorted(set(STRATEGIES) - {"grid"}))
def test_no_memory_for_one_strategy_is_one_sentence_with_the_shortfall_and_the_layer(strategy: str) -> None:
    with pytest.raises(PlanError, match=rf"strategy {strategy} needs .* \d+ bytes short, most for layer \w+ \(.* on worker:\d\);"):
        plan(in_slabs(profile_of(GRAPH, [1e6, 1e6], memory_bytes=1)), strategy=strategy)


def test_mixing_weights_is_planned_for_the_batch_split_and_for_the_hybrid() -> None:
    for strategy in ("auto", "batch"):
        made = plan(unequal(), strategy=strategy, gradient_sync="butterfly_mixing")
        assert (made.strategy, made.gradient_sync) == ("batch", "butterfly_mixing")
        assert made.predicted is not None and made.stages[0].layouts[0].samples
    hybrid = plan(unequal(), strategy="hybrid", gradient_sync="butterfly_mixing")
    assert (hybrid.strategy, hybrid.gradient_sync) == ("hybrid", "butterfly_mixing")
    assert {entry.layout for entry in hybrid.stages[0].layouts} > {"batch"}
    assert plan(unequal(), strategy="batch").gradient_sync == "all_reduce"


@pytest.mark.parametrize(
    ("strategy", "gradient_sync", "message"),
    [
        ("batch", "gossip", "gradient_sync 'gossip' is unknown; use one of all_reduce, butterfly_mixing"),
        (
            "filters",
            "butterfly_mixing",
            "strategy filters adds gradients up, so gradient_sync cannot be butterfly_mixing; use strategy batch or hybrid",
        ),
    ],
)
def test_weights_cannot_be_mixed_otherwise(strategy: str, gradient_sync: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        plan(unequal(), strategy=strategy, gradient_sync=gradient_sync)


@pytest.mark.fast("batch")
@pytest.mark.parametrize("strategy", ["batch", "hybrid", "auto"])
def test_a_plan_with_one_method_for_all_sizes_is_predicted_with_it(strategy: str) -> None:
    profile, free = unequal(), plan(unequal(), strategy=strategy)
    assert free.predicted is not None
    for method in ("ring", "butterfly", "halving_doubling", "exchange"):
        forced = plan(profile, strategy=strategy, collective=method)
        rules = (CollectiveRule("all_reduce", method),)
        assert forced.collectives == rules and forced.predicted is not None
        assert forced.predicted == predict_plan(Costs(profile, rules), forced)
        assert forced.predicted.step_s >= free.predicted.step_s * (1 - 1e-9) or strategy == "hybrid"
    with pytest.raises(PlanError, match="collective 'gossip' is unknown; use one of ring, butterfly, halving_doubling"):
        plan(profile, strategy=strategy, collective="gossip")


def test_one_device_has_no_weights_to_mix() -> None:
    message = "one device alone takes all samples, so there is no weight to mix by butterfly_mixing; leave gradient_sync out"
    with pytest.raises(PlanError, match=message):
        plan(profile_of(GRAPH, [1e6]), strategy="batch", gradient_sync="butterfly_mixing")


def test_a_plan_carries_the_collectives_that_are_cheapest_over_its_links() -> None:
    for strategy in ("batch", "grid"):
        made = plan(four(), strategy=strategy)
        assert made.collectives == collective_rules(four(), made.stages[0].devices, made.stages[0].axes) != ()
    assert plan(four(), strategy="single").collectives == ()
