from __future__ import annotations

import dataclasses

import pytest

from hetero_mtf.devices import Link
from hetero_mtf.errors import ProfileError
from hetero_mtf.planning.cost.device_ring import Ring
from hetero_mtf.planning.cost.gradient_buckets import bucket_bytes
from hetero_mtf.planning.cost.link_cost import collective_rules, link_lines, ring
from hetero_mtf.planning.layout.records import BUCKET_BYTES, BUTTERFLY_UP_TO_BYTES, CollectiveRule
from hetero_mtf.planning.layout.resharding import Resharding, TensorLayout
from hetero_mtf.planning.profile.profile import Profile
from tests.planning.networks import pair_net, profile_of

RING = (CollectiveRule("all_reduce", "ring"),)


def workers(count: int, latency_s: float = 1e-3, bandwidth: float = 1e9) -> Profile:
    return profile_of(pair_net(), [1e6] * count, latency_s=latency_s, bandwidth=bandwidth)


def on_hosts(profile: Profile, hosts: str, **changes: str) -> Profile:
    devices = tuple(dataclasses.replace(device, host=host, **changes) for device, host in zip(profile.cluster.devices, hosts))  # type: ignore[arg-type]
    return dataclasses.replace(profile, cluster=dataclasses.replace(profile.cluster, devices=devices))


def test_an_all_reduce_by_a_ring_takes_two_rounds_of_all_gather() -> None:
    around = Ring(3, latency_s=0.5, seconds_per_byte=0.01, rules=RING)
    assert around.all_gather_s(300) == pytest.approx(2 / 3 * 300 * 0.01 + 2 * 0.5)
    assert around.all_reduce_s(300) == pytest.approx(4 / 3 * 300 * 0.01 + 4 * 0.5)


def test_without_rules_an_all_reduce_takes_the_cheapest_method() -> None:
    around = Ring(4, latency_s=1.0, seconds_per_byte=1.0)
    assert around.all_reduce_s(1) == pytest.approx(2 * (1 + 1))  # butterfly
    assert around.all_reduce_s(100) == pytest.approx(4 + 150)  # halving and doubling


def test_with_rules_an_all_reduce_takes_their_method_for_its_size() -> None:
    rules = (CollectiveRule("all_reduce", "exchange", 10), *RING)
    around = Ring(4, latency_s=1.0, seconds_per_byte=1.0, rules=rules)
    assert around.all_reduce_s(10) == pytest.approx(3 * 11)
    assert around.all_reduce_s(100) == pytest.approx(6 + 150)


def test_the_defaults_are_an_exchange_of_two_and_of_more_a_butterfly_or_for_much_a_ring() -> None:
    assert Ring(2, 1.0, 1.0, rules=()).all_reduce_s(10) == pytest.approx(11)
    assert Ring(4, 1.0, 1.0, rules=()).all_reduce_s(30) == pytest.approx(2 * (1 + 30))
    assert Ring(4, 1.0, 1.0, rules=()).all_reduce_s(BUTTERFLY_UP_TO_BYTES + 4) == pytest.approx(6 + 1.5 * (BUTTERFLY_UP_TO_BYTES + 4))


def test_a_bucket_has_the_bytes_that_are_sent_in_the_latency_of_the_slowest_link() -> None:
    assert bucket_bytes(workers(3, latency_s=0.5, bandwidth=1000.0), (0, 1, 2)) == 500
    assert bucket_bytes(workers(2), (1,)) == BUCKET_BYTES
    here = workers(2)
    same = tuple(dataclasses.replace(device, tf_device="/device:CPU:0") for device in here.cluster.devices)
    assert bucket_bytes(dataclasses.replace(here, cluster=dataclasses.replace(here.cluster, devices=same)), (0, 1)) == 0


def test_one_device_sends_nothing() -> None:
    profile = workers(2, latency_s=1.0)
    assert ring(profile, [1]).all_reduce_s(1e9) == ring(profile, [1]).all_gather_s(1e9) == 0.0
    assert collective_rules(profile, [1]) == ()


def test_a_ring_is_as_slow_as_its_slowest_link() -> None:
    links = (Link(0, 1, 0.1, 10.0), Link(1, 2, 0.3, 100.0), Link(2, 0, 0.2, 2.0), Link(0, 2, 9.0, 9.0))
    found = ring(dataclasses.replace(workers(3), links=links), [0, 1, 2])
    assert (found.devices, found.latency_s, found.seconds_per_byte) == (3, 0.3, 0.5)


def test_a_link_measured_one_way_serves_both() -> None:
    found = ring(dataclasses.replace(workers(2), links=(Link(1, 0, 0.25, 4.0),)), [0, 1])
    assert (found.latency_s, found.seconds_per_byte) == (0.25, 0.25) and found.all_reduce_s(8) == pytest.approx(0.25 + 2)


def test_processors_on_one_device_send_for_nothing_and_have_no_rules() -> None:
    profile = profile_of(pair_net(), [1e6] * 3, latency_s=1.0, same_device=True)
    assert ring(profile, [0, 1, 2]).all_reduce_s(1e6) == 0.0
    assert collective_rules(profile, [0, 1, 2]) == ()


def test_a_link_that_was_not_measured_is_named() -> None:
    profile = dataclasses.replace(workers(2), links=())
    for work in (ring, collective_rules):
        with pytest.raises(ProfileError, match="the profile has no link between worker:0 and worker:1; calibrate again"):
            work(profile, [0, 1])


def test_rules_change_at_the_size_where_another_method_becomes_cheaper() -> None:
    rules = collective_rules(workers(4), [0, 1, 2, 3])
    assert [rule.method for rule in rules] == ["butterfly", "halving_doubling"]
    assert rules[0].up_to_bytes == pytest.approx(4e6, abs=2)
    assert collective_rules(workers(4), [2, 0]) == (CollectiveRule("all_reduce", "exchange"),)


def test_a_mesh_of_several_axes_is_priced_by_its_groups_and_has_equal_segments() -> None:
    links = [Link(a, b, 0.0, 1e6 if {a, b} == {0, 1} else 1e9) for a in range(6) for b in range(6) if a != b]
    profile = dataclasses.replace(workers(6), links=tuple(links))
    assert any(rule.segments for rule in collective_rules(profile, [0, 1, 2]))
    rules = collective_rules(profile, range(6), axes=(("batch", 2), ("filters", 3)))
    assert rules and not any(rule.segments for rule in rules)


def test_an_axis_of_one_is_no_axis() -> None:
    profile = workers(4)
    assert collective_rules(profile, range(4), (("batch", 1), ("filters", 4))) == collective_rules(profile, range(4))


def test_gpus_of_one_process_are_left_to_the_default() -> None:
    profile = workers(2)
    gpus = tuple(
        dataclasses.replace(device, kind="GPU", tf_device=f"/device:GPU:{at}", name=f"gpu:{at}")
        for at, device in enumerate(profile.cluster.devices)
    )
    profile = dataclasses.replace(profile, cluster=dataclasses.replace(profile.cluster, devices=gpus))
    assert collective_rules(profile, [0, 1]) == ()


def test_hosts_far_apart_ask_for_two_levels() -> None:
    hosts = "aabbcc"
    links = [Link(i, j, *((1e-5, 1e10) if hosts[i] == hosts[j] else (1e-2, 1e7))) for i in range(6) for j in range(6) if i != j]
    profile = dataclasses.replace(on_hosts(workers(6), hosts), links=tuple(links))
    rules = collective_rules(profile, range(6))
    assert {rule.method for rule in rules} == {"two_level"}


def test_lines_of_a_profile_serve_both_ways_and_cost_nothing_on_one_device() -> None:
    measured = (Link(0, 1, 1e-3, 1e9), Link(1, 0, 2e-3, 1e9), Link(1, 2, 3e-3, 1e8))
    latencies, slownesses = link_lines(dataclasses.replace(workers(3), links=measured))
    assert latencies.tolist() == [[0.0, 1e-3, float("inf")], [2e-3, 0.0, 3e-3], [float("inf"), 3e-3, 0.0]]
    assert slownesses[1, 2] == slownesses[2, 1] == pytest.approx(1e-8)
    shared = profile_of(pair_net(), [1e6] * 2, latency_s=1.0, same_device=True)
    assert not link_lines(shared)[0].any()
    everyone = workers(3)
    assert ring(everyone, (0, 2), lines=link_lines(everyone)) == ring(everyone, (0, 2))


@pytest.mark.parametrize(
    ("parts", "busiest"), [((1, 1), 1 / 2), ((3, 1), 3 / 4), ((1, 1, 1), 2 / 3), ((4, 1, 1), 4 / 3), ((3, 3, 1), 6 / 7), ((2, 0), 1.0)]
)
def test_a_gather_of_unequal_parts_takes_what_the_busiest_sends_or_receives(parts: tuple[int, ...], busiest: float) -> None:
    around = Ring(len(parts), latency_s=0.5, seconds_per_byte=0.01)
    gather = Resharding("all_gather", "devices", TensorLayout(parts, "devices"), parts, ())
    assert around.reshard_s(gather, 100) == pytest.approx(0.5 * (len(parts) - 1) + busiest)
    even = Resharding("all_gather", "devices", TensorLayout(parts, "devices"), (7,) * len(parts), ())
    assert around.reshard_s(even, 100) == pytest.approx(around.all_gather_s(100))
    assert around.reshard_s(even, 100) <= around.reshard_s(gather, 100) + 1e-12


def test_a_slice_sends_nothing_and_an_all_to_all_what_the_busiest_sends() -> None:
    around = Ring(2, latency_s=0.5, seconds_per_byte=0.01)
    slicing = Resharding("slice", "devices", TensorLayout((3, 1), "devices"), (), (3, 1))
    assert around.reshard_s(slicing, 100) == 0.0
    exchange = Resharding("all_to_all", "devices", TensorLayout((), "", (3, 1), "devices"), (3, 1), (1, 1))
    assert around.reshard_s(exchange, 100) == pytest.approx(0.5 + 0.75 * 0.5 * 100 * 0.01) == around.sent_s(1, 37.5)
