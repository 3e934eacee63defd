from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.choose import plan, plan_if
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.manual import single_stage
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.curve import Curve
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.what_if import (
    WhatIf,
    scaled,
    what_if_clauses,
    what_if_profile,
    with_bandwidth,
    with_batch_size,
    with_memory,
    with_twin,
)
from tests.cases import examples
from tests.planning.networks import pair_net, profile_of, residual_net

GRAPH = pair_net(24, 24, 24)
FACTORS = st.sampled_from([1.0, 1.5, 2.0, 10.0])


def unequal(latency_s: float = 1e-6, bandwidth: float = 1e9) -> Profile:
    return profile_of(GRAPH, [2e6, 1e6], latency_s, bandwidth, batch_size=8)


def step_s(made: Plan) -> float:
    assert made.predicted is not None
    return made.predicted.step_s


def alone_s(profile: Profile, device: int) -> float:
    return predict(Costs(profile), single_stage(profile.graph, device)).step_s


def test_supposing_what_is_measured_changes_nothing() -> None:
    same = WhatIf(scale=(("worker:0", 1.0), ("worker:1", 1.0)), bandwidth=1.0, batch_size=8)
    assert what_if_profile(unequal(), same) == unequal() and bool(same) and not WhatIf()
    assert what_if_profile(unequal(), WhatIf()) == unequal()


@pytest.mark.slow
@examples(5, 40)
@given(FACTORS, st.sampled_from(["worker:0", "worker:1"]), st.sampled_from([1e-6, 1e-2]))
def test_a_faster_device_never_lengthens_the_step_of_a_layout(factor: float, device: str, latency_s: float) -> None:
    profile = unequal(latency_s)
    faster = scaled(profile, device, factor)
    for strategy in ("equal", "filters", "batch"):
        (stage,) = plan(profile, strategy=strategy).stages
        assert predict(Costs(faster), stage).step_s <= predict(Costs(profile), stage).step_s * (1 + 1e-12)
    assert step_s(plan(faster)) <= step_s(plan(profile)) * (1 + 1e-9)


@pytest.mark.slow
@examples(5, 40)
@given(FACTORS, st.sampled_from([1e6, 1e8]))
def test_faster_links_never_lengthen_the_step(factor: float, bandwidth: float) -> None:
    profile = unequal(bandwidth=bandwidth)
    assert step_s(plan(with_bandwidth(profile, factor))) <= step_s(plan(profile)) * (1 + 1e-9)


def test_scaling_divides_the_seconds_of_that_device_alone() -> None:
    profile = unequal()
    faster = scaled(profile, "worker:1", 4.0)
    assert alone_s(faster, 1) == pytest.approx(alone_s(profile, 1) / 4) and alone_s(faster, 0) == alone_s(profile, 0)


def test_processors_on_one_tensorflow_device_are_scaled_together() -> None:
    both = profile_of(GRAPH, [1e6, 1e6], same_device=True)
    assert all(a.seconds[-1] == pytest.approx(b.seconds[-1] / 2) for a, b in zip(scaled(both, "cpu:0", 2.0).curves, both.curves))


def test_a_twin_of_the_only_device_about_halves_the_step() -> None:
    profile = profile_of(GRAPH, [1e6], batch_size=8)
    what_if = WhatIf(add_like=("worker:0",))
    assert step_s(plan_if(profile, what_if)) == pytest.approx(step_s(plan(profile)) / 2, rel=0.05)
    made = what_if_clauses(profile, what_if)
    assert made == (
        "device worker:0+1 is added, which is like worker:0, and sending between them takes no time, as no link of it was measured",
    )


def test_a_twin_has_the_curves_links_and_memory_of_its_original() -> None:
    profile = unequal()
    grown = with_twin(with_twin(profile, "worker:1"), "worker:1")
    assert [d.name for d in grown.cluster.devices] == ["worker:0", "worker:1", "worker:1+1", "worker:1+2"]
    assert len({d.tf_device for d in grown.cluster.devices}) == 4 and {d.pool for d in grown.cluster.devices} == {"host"}
    assert alone_s(grown, 3) == alone_s(profile, 1)
    pairs = {(link.source, link.destination) for link in grown.links}
    assert pairs == {(a, b) for a in range(4) for b in range(4) if a != b}
    assert what_if_clauses(profile, WhatIf(add_like=("worker:1",))) == ("device worker:1+1 is added, which is like worker:1",)


def test_a_pool_of_its_own_is_copied_for_the_twin() -> None:
    profile = profile_of(GRAPH, [1e6], memory_bytes=1000)
    grown = with_twin(profile, "worker:0")
    assert [(pool.name, pool.free_bytes) for pool in grown.memory] == [("host", 1000), ("host+1", 1000)]
    assert grown.cluster.devices[1].pool == "host+1" and len(grown.cluster.pools) == 2


@pytest.mark.slow
def test_memory_is_that_of_the_pool_of_the_device() -> None:
    changed = with_memory(unequal(), "worker:1", 5)
    assert [(pool.name, pool.free_bytes) for pool in changed.memory] == [("host", 5)]
    with pytest.raises(PlanError, match="no plan fits in memory"):
        plan(changed)


def curved(seconds: tuple[float, ...], units: tuple[int, ...] = (2, 4, 8)) -> Profile:
    """Return a profile of one device with a curve over samples for the first convolution's forward pass."""
    profile = profile_of(GRAPH, [1e6], batch_size=8)
    over = Curve(1, 0, "batch", "forward", 8, units, seconds, (0.1, 0.2, 0.3))
    return dataclasses.replace(profile, curves=(*profile.curves, over))


def test_another_batch_size_follows_the_curve_over_samples() -> None:
    profile = curved((1.0, 2.0, 3.0))  # 0.25 s a sample at the end
    larger = with_batch_size(profile, 16)
    over = larger.curve(1, 0, "batch", "forward")
    assert (over.units, over.seconds) == ((2, 4, 8, 16), (1.0, 2.0, 3.0, 5.0)) and over.spread[-1] == 0.3
    whole = [p.seconds(1, 0, "output", 24, "forward") for p in (profile, larger)]
    assert whole[1] == pytest.approx(whole[0] * 5 / 3)
    smaller = with_batch_size(profile, 3)
    assert smaller.curve(1, 0, "batch", "forward").seconds == (1.0, 1.5)
    assert smaller.seconds(1, 0, "output", 7, "forward") == pytest.approx(profile.seconds(1, 0, "output", 7, "forward") / 2)


@pytest.mark.slow
@given(st.integers(1, 12), st.data())
def test_a_few_samples_take_as_long_whatever_the_batch_they_are_part_of(size: int, data: st.DataObject) -> None:
    seconds = data.draw(st.lists(st.floats(0.1, 9.0), min_size=3, max_size=3).map(sorted))
    profile = curved(tuple(seconds))
    part = with_batch_size(profile, size)  # also of fewer samples than were measured, as microbatches are
    for samples in range(size + 1):
        taken_s = [p.seconds(1, 0, "batch", samples, "forward") for p in (part, profile)]
        assert taken_s[0] == pytest.approx(taken_s[1], rel=1e-12)


def test_without_a_curve_over_samples_time_grows_with_them_but_updates_do_not() -> None:
    profile = unequal()
    larger = with_batch_size(profile, 24)
    for step_pass, growth in (("forward", 3.0), ("backward", 3.0), ("update", 1.0)):
        assert larger.seconds(1, 0, "output", 24, step_pass) == pytest.approx(growth * profile.seconds(1, 0, "output", 24, step_pass))


def test_curves_that_were_measured_at_that_batch_are_taken_as_they_are() -> None:
    profile = unequal()
    other = dataclasses.replace(profile.curve(1, 0, "output", "forward"), batch=16, seconds=(7.0, 8.0))
    both = dataclasses.replace(profile, curves=(*profile.curves, other))
    assert with_batch_size(both, 16).seconds(1, 0, "output", 24, "forward") == 8.0


@pytest.mark.slow
@given(st.integers(1, 40), st.integers(1, 40))
def test_a_larger_batch_never_takes_less_time(first: int, second: int) -> None:
    low, high = (alone_s(with_batch_size(curved((1.0, 1.0, 3.0)), size), 0) for size in sorted((first, second)))
    assert low <= high * (1 + 1e-9) and math.isfinite(high)


def test_a_plan_says_what_it_supposes_and_keeps_it_in_its_file() -> None:
    what_if = WhatIf((("worker:1", 2.0),), ("worker:0",), 2.0, (("worker:0", 2**40),), 16)
    made = plan_if(unequal(), what_if)
    assert made.batch_size == 16 and len(made.devices) == 3
    assert made.what_if == (
        "device worker:0+1 is added, which is like worker:0",
        "device worker:1 is 2 times as fast as measured",
        "every link has 2 times the bandwidth measured",
        "the memory of device worker:0 has 1.0 TiB free",
        "a batch has 16 samples, with times extrapolated from 8",
    )
    assert Plan.from_json(made.to_json()) == made
    assert "What-if, not measured: device worker:1 is 2 times as fast as measured\n" in str(made)
    assert plan_if(unequal(), WhatIf(batch_size=4)).what_if == ("a batch has 4 samples, with times interpolated from 8",)
    assert plan(unequal()).what_if == ()


@pytest.mark.slow
def test_a_residual_net_can_be_supposed_too() -> None:
    profile = profile_of(residual_net(), [2e6, 1e6], 1e-6)
    made = plan_if(profile, WhatIf(add_like=("worker:0",), batch_size=9))
    made.check(profile.graph)


@pytest.mark.parametrize("change", [lambda p, d: scaled(p, d, 2.0), with_twin, lambda p, d: with_memory(p, d, 1)])
def test_a_device_that_is_not_there_is_refused(change: object) -> None:
    with pytest.raises(PlanError, match="the profile has no device 'gpu:9', it has worker:0, worker:1; use one of these"):
        change(unequal(), "gpu:9")  # type: ignore[operator]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"scale": (("a", 0.0),)}, "the factor of device a is 0, it must be from 0.000001 to 1000000; 2 means twice as fast"),
        ({"bandwidth": math.nan}, "the factor of the bandwidth is nan, it must be from 0.000001 to 1000000"),
        ({"memory": (("a", -1),)}, "the memory of device a is -1 bytes; give zero or more"),
        ({"batch_size": 0}, "the batch size is 0; use at least 1"),
    ],
)
def test_what_cannot_be_supposed_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        WhatIf(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"memory": (("a", 1), ("b", 2), ("a", 3))}, "the memory of device a is given as 1 B and as 3 B; give it once"),
        ({"scale": (("a", 2.0), ("a", 2.0))}, "the factor of device a is given as 2 and as 2; give it once"),
    ],
)
def test_two_values_of_one_device_are_refused_with_both(fields: dict[str, object], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        WhatIf(**fields)  # type: ignore[arg-type]


def test_two_values_of_what_devices_share_are_refused_with_both() -> None:
    memory = (("worker:0", 5), ("worker:1", 6))
    with pytest.raises(PlanError, match="the memory pool host is given as 5 B of worker:0 and as 6 B of worker:1; give it once"):
        what_if_profile(unequal(), WhatIf(memory=memory))
    with pytest.raises(PlanError, match=r"the memory pool host is given as 5 B of worker:0 and as 6 B of worker:0\+1; give it once"):
        what_if_profile(unequal(), WhatIf(add_like=("worker:0",), memory=(memory[0], ("worker:0+1", 6))))
    assert what_if_profile(unequal(), WhatIf(memory=(memory[0], ("worker:1", 5)))) == with_memory(unequal(), "worker:0", 5)
    both = profile_of(GRAPH, [1e6, 1e6], same_device=True)
    first, second = (dataclasses.replace(device, name=name) for device, name in zip(both.cluster.devices, ("cpu:0", "cpu:0 again")))
    named = dataclasses.replace(both, cluster=dataclasses.replace(both.cluster, devices=(first, second)))
    with pytest.raises(PlanError, match="the speed of .* is given as 2 of cpu:0 and as 3 of cpu:0 again; give it once"):
        what_if_profile(named, WhatIf((("cpu:0", 2.0), ("cpu:0 again", 3.0))))


def test_a_batch_too_far_out_to_say_anything_of_is_refused() -> None:
    message = "a batch of 8001 samples is too large to extrapolate to, the 8 measured reach to 8000; calibrate with a larger batch"
    with pytest.raises(PlanError, match=message):
        with_batch_size(unequal(), 8001)
    assert with_batch_size(unequal(), 8000).batch_size == 8000
