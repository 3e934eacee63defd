from __future__ import annotations

import dataclasses

import pytest

from hetero_mtf.devices import Link
from hetero_mtf.errors import ProfileError
from hetero_mtf.planning.link_cost import Ring, ring
from tests.planning.networks import pair_net, profile_of


def test_an_all_reduce_takes_two_rounds_of_all_gather() -> None:
    around = Ring(3, latency_s=0.5, seconds_per_byte=0.01)
    assert around.all_gather_s(300) == pytest.approx(2 / 3 * 300 * 0.01 + 2 * 0.5)
    assert around.all_reduce_s(300) == pytest.approx(4 / 3 * 300 * 0.01 + 4 * 0.5)


def test_one_device_sends_nothing() -> None:
    profile = profile_of(pair_net(), [1e6, 1e6], latency_s=1.0)
    assert ring(profile, [1]).all_reduce_s(1e9) == 0.0


def test_a_ring_is_as_slow_as_its_slowest_link() -> None:
    profile = profile_of(pair_net(), [1e6] * 3)
    links = (Link(0, 1, 0.1, 10.0), Link(1, 2, 0.3, 100.0), Link(2, 0, 0.2, 2.0), Link(0, 2, 9.0, 9.0))
    assert ring(dataclasses.replace(profile, links=links), [0, 1, 2]) == Ring(3, 0.3, 0.5)


def test_a_link_measured_one_way_serves_both() -> None:
    profile = dataclasses.replace(profile_of(pair_net(), [1e6] * 2), links=(Link(1, 0, 0.25, 4.0),))
    assert ring(profile, [0, 1]) == Ring(2, 0.25, 0.25)


def test_processors_on_one_device_send_for_nothing() -> None:
    profile = profile_of(pair_net(), [1e6] * 2, latency_s=1.0, same_device=True)
    assert ring(profile, [0, 1]).all_reduce_s(1e6) == 0.0


def test_a_link_that_was_not_measured_is_named() -> None:
    profile = dataclasses.replace(profile_of(pair_net(), [1e6] * 2), links=())
    with pytest.raises(ProfileError, match="the profile has no link between worker:0 and worker:1; calibrate again"):
        ring(profile, [0, 1])
