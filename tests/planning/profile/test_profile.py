from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import resource
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.devices import Link, MemoryPool
from hetero_mtf.errors import HeteroError, ProfileError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import LARGEST_EXTENT, Profile, alike
from hetero_mtf.planning.profile.what_if import with_batch_size
from tests.planning.networks import Net, frozen, pair_net, profile_of
from tests.planning.spoiling import spoilt
from tools.generated.profiles import Figures, generated_profile

SMALL = profile_of(pair_net(2, 2, 2), [1e6, 5e5])


@pytest.fixture
def profile() -> Profile:
    return profile_of(pair_net(), [1e6, 5e5], latency_s=1e-4, bandwidth=1e8)


def document(profile: Profile) -> dict[str, Any]:
    return json.loads(json.dumps(profile.to_json()))


def test_a_profile_read_back_is_the_same_profile(profile: Profile, tmp_path: pathlib.Path) -> None:
    profile.save(tmp_path / "profile.json")
    assert Profile.load(tmp_path / "profile.json") == profile


def test_the_file_names_its_units(profile: Profile) -> None:
    written = document(profile)
    assert {"latency_s", "bandwidth_bytes_per_s"} <= set(written["links"][0]) and "free_bytes" in written["memory"][0]
    assert {"units", "seconds"} <= set(written["curves"][0]) and (written["kind"], written["version"]) == ("profile", 3)


def test_seconds_are_read_off_the_curve_of_the_layer_device_dimension_and_pass(profile: Profile) -> None:
    flops = profile.graph.layers[1].flops * profile.batch_size
    assert profile.seconds(1, 0, "output", 6, "forward") == pytest.approx(flops / 2 / 1e6)
    assert profile.seconds(1, 1, "output", 12, "backward") == pytest.approx(2 * flops / 5e5)
    assert profile.seconds(1, 1, "output", 0, "backward") == 0.0


def test_layers_of_equal_structure_share_a_curve_whatever_their_names_and_places() -> None:
    net = Net((8, 8, 4))
    for name in ("a", "b", "c"):
        net.conv(name, 4)
    net.conv("wider", 5)
    graph = net.graph()
    assert alike(graph) == (0, 1, 2, 2, 4)
    profile = profile_of(graph, [1e6])
    assert profile.seconds(3, 0, "input", 2, "forward") == profile.seconds(2, 0, "input", 2, "forward")


def test_the_first_layer_that_trains_is_like_no_later_one_because_it_returns_no_gradient() -> None:
    net = Net((8, 8, 4))
    for name in ("a", "b", "c"):
        net.conv(name, 4)
    assert alike(net.graph()) == (0, 1, 2, 2)
    assert alike(frozen(net.graph())) == (0, 1, 1, 1)


def test_calls_of_one_layer_are_alike() -> None:
    graph = pair_net()
    again = dataclasses.replace(graph.layers[4], name="head:2", shared_with=4)
    assert alike(LayerGraph((*graph.layers, again), graph.dtype, (4, 5))) == (0, 1, 2, 3, 4, 4)


def test_equal_layers_on_other_input_shapes_are_not_alike() -> None:
    net = Net((8, 8, 4))
    net.conv("a", 4)
    net.add("MaxPooling2D", "pool", pool_size=[2, 2], strides=[2, 2], padding="valid")
    net.conv("b", 4)
    assert alike(frozen(net.graph())) == (0, 1, 2, 3)


def test_processors_on_one_device_share_its_curves() -> None:
    whole = profile_of(pair_net(), [1e6, 1e6], same_device=True)
    shared = dataclasses.replace(whole, curves=tuple(c for c in whole.curves if c.device == 0))
    assert shared.seconds(1, 1, "output", 6, "forward") == whole.seconds(1, 0, "output", 6, "forward")


def test_curves_of_another_local_batch_are_not_mistaken(profile: Profile) -> None:
    other = tuple(dataclasses.replace(c, batch=2, seconds=tuple(9.0 for _ in c.units)) for c in profile.curves)
    assert dataclasses.replace(profile, curves=other + profile.curves).seconds(1, 0, "output", 6, "forward") < 1


def test_what_was_not_measured_is_named(profile: Profile) -> None:
    with pytest.raises(ProfileError, match="the profile has no forward curve over whole units of layer first on worker:1; calibrate again"):
        profile.seconds(1, 1, "whole", 3, "forward")
    assert not profile.has_curve(1, 1, "whole", "forward") and profile.has_curve(1, 1, "output", "forward")


def test_every_fault_of_a_file_is_named_with_its_path(profile: Profile, tmp_path: pathlib.Path) -> None:
    wrong = document(profile)
    wrong["batch_size"] = 0
    wrong["measured_at"] = "yesterday"
    wrong["curves"][0]["units"] = [5, 1]
    wrong["curves"][1]["seconds"][0] = float("nan")
    wrong["links"][0]["bandwidth_bytes_per_s"] = 0
    wrong["links"][1]["source"] = 7
    wrong["memory"][0]["free_bytes"] = -1
    wrong["graph"]["digest"] = "0" * 12
    wrong["colour"] = "red"
    del wrong["optimizer"]
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(wrong))
    with pytest.raises(ProfileError) as caught:
        Profile.load(path)
    text = str(caught.value)
    assert text.startswith(f"{path} has 10 faults: ") and text.endswith("; calibrate again with hetero-mtf calibrate")
    for fault in (
        "batch_size: is 0, must be at least 1",
        "measured_at: is 'yesterday', must be an ISO date",
        "curves[0].units: are [5, 1], must be zero or more and increase",
        "curves[1].seconds[0]: is nan, must be a finite number",
        "links[0].bandwidth_bytes_per_s: is 0, must be above zero",
        "links[1].source: is 7, there are 2 devices",
        "memory[0].free_bytes: is -1, must be zero or more",
        f"graph: the network description has digest {profile.graph.digest} and its file 000000000000",
        "colour: is not known",
        "optimizer: is missing",
    ):
        assert fault in text


def test_a_file_from_before_calls_and_spreads_of_links_were_measured_is_read(profile: Profile) -> None:
    older = document(profile)
    del older["launch_s"], older["feed_s_per_byte"]
    for link in older["links"]:
        del link["spread"], link["message_s"]
    assert Profile.from_json(older) == profile and profile.launch_s == profile.feed_s_per_byte == profile.links[0].spread == 0.0


def test_seconds_of_a_call_and_spreads_of_links_below_zero_are_faults(profile: Profile) -> None:
    wrong = document(profile)
    wrong["launch_s"], wrong["feed_s_per_byte"], wrong["links"][0]["spread"], wrong["links"][0]["message_s"] = -1, -2, -3, -4
    said = "4 faults: launch_s: is -1, .*feed_s_per_byte: is -2, .*spread: is -3, .*message_s: is -4, must be zero or more"
    with pytest.raises(ProfileError, match=said):
        Profile.from_json(wrong)


def test_a_file_without_cluster_or_network_is_refused(profile: Profile) -> None:
    wrong = document(profile)
    del wrong["cluster"], wrong["graph"]
    with pytest.raises(ProfileError, match="has 2 faults: cluster: is missing; graph: is missing; calibrate again"):
        Profile.from_json(wrong)


def test_a_plan_is_not_a_profile(profile: Profile, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({**document(profile), "kind": "plan"}))
    with pytest.raises(
        HeteroError, match=re.escape(f"{path} is a plan of hetero-mtf plan and not a profile file; make it again with hetero-mtf calibrate")
    ):
        Profile.load(path)


def test_a_profile_made_wrong_in_python_is_refused_too(profile: Profile) -> None:
    with pytest.raises(ProfileError, match=r"the profile has 2 faults: links\[0\].latency_s: is -1, must be zero or more; memory\[0\]"):
        dataclasses.replace(profile, links=(Link(0, 1, -1.0, 1.0),), memory=(MemoryPool("host", -3),))


@pytest.mark.slow
@given(st.data())
def test_whatever_is_spoilt_in_a_file_is_one_sentence(data: st.DataObject) -> None:
    wrong = spoilt(document(SMALL), data)
    try:
        assert Profile.from_json(wrong).batch_size
    except ProfileError as fault:
        assert str(fault).endswith("; calibrate again with hetero-mtf calibrate")


def test_a_number_too_large_inside_the_network_is_a_fault_of_it(profile: Profile) -> None:
    wrong = document(profile)
    wrong["graph"]["layers"][1]["output_shape"][0] = float("inf")
    said = r"has 1 fault: graph: the network description is damaged: layers\[1\].output_shape\[0\] is inf, "
    with pytest.raises(ProfileError, match=said):
        Profile.from_json(wrong)


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Leave this process half a GiB more than it has."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    held = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + 2**29, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("batch", [10**9, 10**18])
def test_an_absurd_batch_is_refused_before_anything_is_tabulated(profile: Profile, batch: int, little_memory: None) -> None:
    absurd = document(profile)
    absurd["batch_size"] = batch
    message = rf"1 fault: batch_size: is {batch:,}, must be at most 10,000,000; calibrate again"
    with pytest.raises(ProfileError, match=message):
        Profile.from_json(absurd)
    with pytest.raises(ProfileError, match="batch_size: is 1,000,000,000, must be at most 10,000,000; calibrate again"):
        generated_profile(profile.graph, [Figures(1e12)] * 2, 10**9)
    with pytest.raises(ProfileError, match="batch_size: is 20,000,000, must be"):
        with_batch_size(dataclasses.replace(profile, batch_size=20_000, curves=()), 20_000_000)


def test_a_layer_of_absurdly_many_units_is_named(little_memory: None) -> None:
    net = Net()
    net.add("Flatten", "flatten")
    net.dense("wide", LARGEST_EXTENT + 1)
    message = r"1 fault: graph.layers\[2\]: can be split by 10,000,001 units, must be at most 10,000,000 \(wide\); calibrate again"
    with pytest.raises(ProfileError, match=message):
        generated_profile(net.graph(), [Figures(1e12)] * 2, 8)


def test_tables_that_are_too_large_for_all_devices_together_are_refused(little_memory: None) -> None:
    message = "batch_size: is 2,000,000, with 64 devices and 5 kinds of layers it takes tables of 14.3 GiB, must be at most 4.0 GiB"
    with pytest.raises(ProfileError, match=message):
        generated_profile(pair_net(), [Figures(1e12)] * 64, 2_000_000)


def test_a_large_batch_that_is_not_absurd_is_planned() -> None:
    made = plan(generated_profile(pair_net(), [Figures(1e12)] * 2, 20_000), strategy="batch")
    assert sum(made.stages[0].layouts[0].samples or (20_000,)) == 20_000


def test_a_typed_plan_of_an_absurd_batch_takes_no_memory(profile: Profile, little_memory: None) -> None:
    typed = Plan.batch(profile.graph, [2, 1], profile.cluster, 10**9)
    assert Plan.from_json(typed.to_json()) == typed and "1000000000" in str(typed)


def test_the_repr_of_a_profile_is_one_line(profile: Profile) -> None:
    text = repr(profile)
    assert text.startswith("<Profile: 5 layers") and "\n" not in text and len(text) < 300
    assert profile.graph.digest in text and f"{len(profile.curves)} curves and {len(profile.links)} links" in text
    assert "worker:0, worker:1" in text and f"batch size {profile.batch_size}" in text
