from __future__ import annotations

import dataclasses

import pytest

from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.layout.records import DevicePart, Prediction
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.what_if import with_memory
from hetero_mtf.report.limiting_part import bottlenecks
from tests.planning.networks import pair_net, profile_of

GRAPH = pair_net(24, 24, 24)


def found(parts: list[tuple[float, float, float]], profile: Profile | None = None, launch_s: float = 0.0) -> list[tuple[str, str]]:
    """Return the bottlenecks of devices with these seconds of compute, communication and idle time."""
    step_s = max(map(sum, parts))
    made = tuple(DevicePart(f"worker:{at}", *part, memory_bytes=1000) for at, part in enumerate(parts))
    prediction = Prediction(step_s, step_s, 0.0, 0.0, made, launch_s)
    return [(b.kind, b.text) for b in bottlenecks(prediction, range(len(parts)), profile)]


def test_the_device_the_others_wait_for_is_the_bottleneck() -> None:
    assert found([(0.4, 0.1, 0.5), (0.9, 0.1, 0.0)]) == [
        ("device", "device worker:1 is the bottleneck: it is never idle, compute 900 ms, communication 100 ms of 1.00 s")
    ]


def test_devices_of_which_none_is_idle_are_balanced() -> None:
    text = "both devices are balanced: worker:1 is never idle, compute 900 ms, communication 100 ms of 1.00 s"
    assert found([(0.89, 0.1, 0.01), (0.9, 0.1, 0.0)]) == [("device", text)]
    assert found([(0.9, 0.1, 0.0)] * 3)[0][1].startswith("all 3 devices are balanced: ")


def test_launch_overhead_is_not_waiting_for_others() -> None:
    text = "both devices are balanced: worker:0 is never idle, compute 700 ms, communication 0 s of 1.00 s"
    assert found([(0.7, 0.0, 0.3), (0.7, 0.0, 0.3)], launch_s=0.3) == [("device", text)]


def test_links_are_the_bottleneck_where_communication_takes_longer_than_compute() -> None:
    text = "the links are the bottleneck: worker:1 is least idle (100 ms), compute 300 ms, communication 600 ms of 1.00 s"
    assert found([(0.2, 0.6, 0.2), (0.3, 0.6, 0.1)]) == [("link", text)]
    profile = profile_of(GRAPH, [1e6, 1e6], 1e-4, bandwidth=2**20)
    slowest = "; the slowest is that of worker:1 and worker:0, 1.0 MiB/s after 100 us"
    assert found([(0.2, 0.6, 0.2), (0.3, 0.6, 0.1)], profile) == [("link", text + slowest)]


def test_links_that_take_no_time_are_not_called_slow() -> None:
    profile = profile_of(GRAPH, [1e6, 1e6], same_device=True)
    assert found([(0.2, 0.8, 0.0), (0.2, 0.8, 0.0)], profile)[0][1].endswith("; between cpu:0 and cpu:0 nothing is sent")


@pytest.mark.parametrize(("free_bytes", "full"), [(2000, True), (2104, True), (2110, False)])
def test_memory_is_a_bottleneck_from_95_percent_of_what_is_free(free_bytes: int, full: bool) -> None:
    profile = profile_of(GRAPH, [1e6, 1e6], memory_bytes=free_bytes)
    kinds = found([(0.9, 0.1, 0.0), (0.4, 0.1, 0.5)], profile)
    assert (kinds[-1][0] == "memory") == full
    if free_bytes == 2000:
        assert kinds[-1][1] == "memory host is a bottleneck: 2.0 KiB are needed, 2.0 KiB are free"


def test_a_plan_that_just_fits_is_bound_by_memory() -> None:
    profile = profile_of(GRAPH, [2e6, 1e6], 1e-6)
    made = plan(profile, strategy="filters")
    assert made.predicted is not None
    needed = sum(part.memory_bytes for part in made.predicted.parts)
    full = with_memory(profile, "worker:0", needed)
    again = plan(full, strategy="filters")
    assert again.predicted is not None and dataclasses.replace(again, contributions=()) == dataclasses.replace(made, contributions=())
    assert [b.kind for b in bottlenecks(again.predicted, again.used, full)] == ["device", "memory"]
