"""A batch that is sent to other hosts: bytes by device, the links that are shared, and steps that wait for it."""

from __future__ import annotations

import dataclasses
import math

import pytest

from hetero_mtf.errors import ProfileError
from hetero_mtf.planning.choose import plan as plan_of
from hetero_mtf.planning.cost.feeding import fed_bytes, feed_s
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.feed_link import FeedLink
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.what_if import with_bandwidth, with_twin
from hetero_mtf.report.limiting_part import bottlenecks
from tests.planning.networks import pair_net, profile_of

BATCH = 4


def _profile(alone: float, together: float, hosts: tuple[str, ...] = ("a", "b")) -> Profile:
    """Return a profile of two devices on two hosts, or one, whose feed links have some bytes a second."""
    plain = profile_of(pair_net(), [1e6, 5e5])
    devices = tuple(dataclasses.replace(device, host=host) for device, host in zip(plain.cluster.devices, hosts))
    links = tuple(FeedLink(index, alone, together) for index in range(2))
    return dataclasses.replace(plain, cluster=dataclasses.replace(plain.cluster, devices=devices), feed_links=links)


def _sample_bytes(profile: Profile) -> int:
    return 4 * math.prod(profile.graph.layers[profile.graph.inputs[0]].output_shape)


def test_a_device_is_sent_its_samples_or_the_whole_batch() -> None:
    profile = _profile(1.0, 1.0)
    graph, cluster, sample = profile.graph, profile.cluster, _sample_bytes(profile)
    assert fed_bytes(profile, Plan.single(graph, 1, cluster, BATCH).stages) == {1: BATCH * sample}
    assert fed_bytes(profile, Plan.equal(graph, cluster, BATCH).stages) == {0: BATCH * sample, 1: BATCH * sample}
    assert fed_bytes(profile, Plan.batch(graph, [3, 1], cluster, BATCH).stages) == {0: 3 * sample, 1: sample}


def test_the_slowest_host_or_the_programs_own_link_is_waited_for() -> None:
    batch = Plan.batch(pair_net(), [3, 1], _profile(1.0, 1.0).cluster, BATCH).stages
    sample = _sample_bytes(_profile(1.0, 1.0))
    assert feed_s(_profile(10.0, 100.0), batch) == pytest.approx(3 * sample / 10.0)
    assert feed_s(_profile(10.0, 11.0), batch) == pytest.approx(4 * sample / 11.0)
    assert feed_s(_profile(10.0, 100.0, ("a", "a")), batch) == pytest.approx(4 * sample / 10.0)  # of one host, whose link is shared
    assert feed_s(dataclasses.replace(_profile(1.0, 1.0), feed_links=()), batch) == 0.0


def test_a_step_waits_for_a_batch_that_takes_longer_to_send_than_the_step_before() -> None:
    profile = _profile(1e12, 1e12)
    plan = Plan.equal(profile.graph, profile.cluster, BATCH)
    unfed = predict(Costs(profile), plan.stages[0])
    assert unfed.step_s == pytest.approx(predict(Costs(dataclasses.replace(profile, feed_links=())), plan.stages[0]).step_s)
    slow = _profile(2 * BATCH * _sample_bytes(profile) / (3 * unfed.step_s), 1e12)
    for each in (slow, dataclasses.replace(slow, feed_links=slow.feed_links[::-1])):
        found = predict(Costs(each), plan.stages[0])
        assert found.step_s == pytest.approx(1.5 * unfed.step_s) and found.launch_s == pytest.approx(0.5 * unfed.step_s)
    half = predict(Costs(slow), Plan.batch(profile.graph, [2, 2], profile.cluster, BATCH).stages[0])
    assert half.launch_s == 0.0


def test_the_planner_sends_less_where_the_program_s_link_is_slow_and_says_so() -> None:
    fast = _profile(1e12, 1e12)
    step_s = plan_of(fast).predicted.step_s
    slow = _profile(1e12, BATCH * _sample_bytes(fast) / (4 * step_s))
    chosen = plan_of(slow)
    assert sum(fed_bytes(slow, chosen.stages).values()) == BATCH * _sample_bytes(fast)  # no device gets what another one has
    assert chosen.predicted.step_s == pytest.approx(4 * step_s)
    first = bottlenecks(chosen.predicted, chosen.used, slow)[0]
    assert first.name == "the program's link" and "run the program on a" in first.text and "before" not in first.text
    assert not any("program" in each.name for each in bottlenecks(plan_of(fast).predicted, plan_of(fast).used, fast))


def test_faster_links_and_twins_count_for_what_is_fed() -> None:
    profile = _profile(10.0, 20.0)
    assert [(link.bytes_per_s, link.together_bytes_per_s) for link in with_bandwidth(profile, 3.0).feed_links] == [(30.0, 60.0)] * 2
    assert [link.device for link in with_twin(profile, profile.cluster.devices[1].name).feed_links] == [0, 1, 2]


def test_feed_links_are_stored_and_checked() -> None:
    profile = _profile(10.0, 20.0)
    assert Profile.from_json(profile.to_json()).feed_links == profile.feed_links
    with pytest.raises(ProfileError, match="feed_links.0..device: is 7.*feed_links.1..bytes_per_s: is 0, must be above"):
        dataclasses.replace(profile, feed_links=(FeedLink(7, 1.0, 1.0), FeedLink(0, 0.0, 1.0)))
