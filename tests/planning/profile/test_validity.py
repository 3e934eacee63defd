"""Warnings of a profile: a sentence for each, and none without a reason."""

from __future__ import annotations

import dataclasses
import datetime

import pytest

from hetero_mtf.devices import ClusterRecord
from hetero_mtf.errors import ProfileError
from hetero_mtf.planning.profile.curve import Curve
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.validity import age_text, check_profile, days_old, profile_warnings, same_device, wide_spread
from tests.planning.networks import cluster_of, pair_net, profile_of

NOW = datetime.datetime(2026, 1, 20, 12, tzinfo=datetime.timezone.utc)
HERE = {"tensorflow": "2.21.0", "keras": "3.1"}


@pytest.fixture
def profile() -> Profile:
    return dataclasses.replace(profile_of(pair_net(), [1e6, 5e5]), versions=HERE)


def test_a_young_quiet_profile_of_this_cluster_leaves_no_doubt(profile: Profile) -> None:
    assert profile_warnings(profile, profile.cluster, NOW, HERE) == [] and profile_warnings(profile, now=NOW) == []


def test_a_profile_is_stale_after_thirty_days_and_cannot_be_from_the_future(profile: Profile) -> None:
    old = dataclasses.replace(profile, measured_at="2025-12-01")
    assert days_old(old, NOW) == 50.5
    assert profile_warnings(old, now=NOW) == ["the profile is 50 days old (2025-12-01); calibrate again"]
    assert profile_warnings(dataclasses.replace(profile, measured_at="2025-12-22T00:00:00Z"), now=NOW) == []
    (warning,) = profile_warnings(dataclasses.replace(profile, measured_at="2026-02-01T00:00:00+00:00"), now=NOW)
    assert warning == "the profile is from the future (2026-02-01, now it is 2026-01-20); set the clock and calibrate again"


@pytest.mark.parametrize(
    "measured_at, text",
    [("2026-01-19T12:00:01", ""), ("2026-01-19T12:00:00", "1 day ago"), ("2025-12-01", "50 days ago"), ("2026-02-01", "")],
)
def test_the_age_of_a_profile_is_told_in_days_from_the_first_on(measured_at: str, text: str, profile: Profile) -> None:
    assert age_text(dataclasses.replace(profile, measured_at=measured_at), NOW) == text


def test_the_clock_is_read_where_no_time_is_given(profile: Profile) -> None:
    lately = datetime.datetime.now(datetime.timezone.utc).isoformat()
    assert profile_warnings(dataclasses.replace(profile, measured_at=lately)) == []


def test_a_wide_spread_is_told_once_by_the_worst_and_not_where_little_time_goes(profile: Profile) -> None:
    wide = Curve(1, 0, "output", "forward", 4, (2, 4), (0.5, 1.0), (0.3, 0.6))
    small = Curve(2, 0, "output", "forward", 4, (4,), (0.01,), (0.9,))
    text = "2 measurements scatter widely, worst first on worker:0 by 60%; calibrate on quiet devices, or for longer"
    assert wide_spread(profile.graph, profile.cluster, [small, wide]) == text
    assert profile_warnings(dataclasses.replace(profile, curves=(small, wide)), now=NOW) == [text]
    one = dataclasses.replace(wide, units=(4,), seconds=(1.0,), spread=(0.3,))
    assert wide_spread(profile.graph, profile.cluster, [one]).startswith("1 measurement scatters widely, worst first on worker:0 by 30%")
    assert wide_spread(profile.graph, profile.cluster, [small, dataclasses.replace(one, spread=(0.2,))]) == ""
    assert wide_spread(profile.graph, profile.cluster, []) == ""


def test_a_link_that_scatters_is_told(profile: Profile) -> None:
    there, back = profile.links
    noisy = dataclasses.replace(profile, links=(dataclasses.replace(there, latency_s=0.002, spread=1.5), back))
    text = "the link between worker:0 and worker:1 scatters by 150% about 2.00 ms; calibrate on quiet devices, or for longer"
    assert profile_warnings(noisy, now=NOW) == [text]


def test_other_devices_hosts_and_programs_are_told_each(profile: Profile) -> None:
    assert profile_warnings(profile, cluster_of(3), NOW) == [
        "the profile was measured on 2 devices, there are 3; calibrate again on this cluster"
    ]
    first, second = profile.cluster.devices
    changed = (dataclasses.replace(first, model="new", share=0.5), dataclasses.replace(second, host="b"))
    other = ClusterRecord(changed, profile.cluster.pools)
    assert profile_warnings(profile, other, NOW, {"tensorflow": "2.22.0", "keras": "3.1"}) == [
        "the profile was measured on worker:0 at 1 (/job:worker/task:0/device:CPU:0), in its place is worker:0 new at 0.5 "
        "(/job:worker/task:0/device:CPU:0); calibrate again on this cluster",
        "the profile was measured on worker:1 of host here, it is on b now; calibrate again if that is another machine",
        "the profile was measured with tensorflow 2.21.0, here is 2.22.0; calibrate again",
    ]


def test_a_profile_of_processes_that_are_limited_is_none_of_devices_whose_threads_are(profile: Profile) -> None:
    limited = tuple(dataclasses.replace(device, limit="compute") for device in profile.cluster.devices)
    other = ClusterRecord(limited, profile.cluster.pools)
    assert not same_device(profile.cluster.devices[0], limited[0])
    assert "in its place is worker:0 at 1 (compute only)" in profile_warnings(profile, other, NOW)[0]
    with pytest.raises(ProfileError, match=r"was measured on worker:0 at 1, .* this cluster has worker:0 at 1 \(compute only\)"):
        check_profile(profile, profile.graph, other)


def test_another_number_of_cores_is_told_where_both_are_known(profile: Profile) -> None:
    first, second = profile.cluster.devices

    def with_cores(cores: int) -> ClusterRecord:
        return ClusterRecord((dataclasses.replace(first, cores=cores), second), profile.cluster.pools)

    four = dataclasses.replace(profile, cluster=with_cores(4))
    assert profile_warnings(four, with_cores(2), NOW) == [
        "the profile was measured on worker:0 with 4 cores, now it has 2; calibrate again on this cluster"
    ]
    for other in (with_cores(4), with_cores(0)):
        assert profile_warnings(four, other, NOW) == []
    assert profile_warnings(profile, with_cores(2), NOW) == []
    assert not same_device(with_cores(4).devices[0], with_cores(2).devices[0]) and same_device(with_cores(4).devices[0], first)
