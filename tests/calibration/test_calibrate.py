"""Calibration: profiles that can be planned from, budgets that are kept or complained about, and deaths that leave nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
import json
import math
import os
import pathlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import keras
import pytest

import hetero_mtf as hm
from hetero_mtf.calibration import calibrate as module
from hetero_mtf.calibration import calibration_budget as budget
from hetero_mtf.calibration import sampling
from hetero_mtf.calibration.alone import by_process, distinct
from hetero_mtf.calibration.calibrate import calibrate
from hetero_mtf.calibration.calibration_budget import CalibrationWarning, Effort, EffortWindows, effort_within
from hetero_mtf.calibration.windows import Windows
from hetero_mtf.devices import Device, Link
from hetero_mtf.errors import ClusterError, HeteroError, ProfileError, UnsupportedError, WorkerError
from hetero_mtf.planning.choose import STRATEGIES
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.arrangement import arrange
from hetero_mtf.planning.profile.curve import PASSES
from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.strategies.split_search import Sizer
from tests.runtime.conftest import eventually, groups, process_state

__all__ = ["eventually", "groups", "process_state"]
L = keras.layers
BATCH = 4
FOR_TWO = [name for name in STRATEGIES if name != "grid"]  # which needs four devices
OF_SAMPLES = [name for name in FOR_TWO if name != "space"]  # whose slabs are measured for batches of one and two


def _model(filters: int = 4) -> keras.Model:
    i = keras.Input((6, 6, 2))
    x = L.Conv2D(filters, 3, padding="same", name="conv", activation="relu")(i)
    x = L.BatchNormalization(name="norm")(L.Conv2D(filters, 3, padding="same", name="second")(x))
    return keras.Model(i, L.Dense(3, name="head", activation="softmax")(L.Flatten()(L.MaxPooling2D(name="pool")(x))))


def _small() -> keras.Model:
    return keras.Sequential([keras.Input((4,)), L.Dense(3)])


def _quick(cluster: Any, model: Any, **options: Any) -> Profile:
    """Return a profile of both ends of all curves, in windows shorter than any that a budget leads to."""
    with (
        mock.patch.object(budget, "LEAST_WINDOW_S", 0.02),
        mock.patch.object(sampling, "OVERTIME", math.inf),
        pytest.warns(CalibrationWarning, match="a budget of 0.01 s is short, [0-9]+ s would do; windows and points are cut, expect larger"),
    ):
        return calibrate(cluster, model, **{"batch_size": 4, "budget_s": 0.01, **options})


@pytest.fixture(scope="module")
def profile() -> Profile:
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        return _quick(cluster, _model())


@pytest.mark.slow
def test_a_profile_has_a_curve_for_all_that_takes_time(profile: Profile) -> None:
    found = {(profile.graph.layers[c.layer].name, c.dimension, c.step_pass) for c in profile.curves}
    mixing = {*itertools.product(("conv", "second"), ("output", "input"), PASSES), *itertools.product(["head"], ["input"], PASSES)}
    plain = {*itertools.product(["norm"], ["output"], PASSES), *itertools.product(["pool"], ["output"], PASSES[:2])}
    samples = set(itertools.product(("conv", "second", "head", "norm", "pool"), ["batch"], PASSES[:2]))
    assert found == mixing | plain | samples
    assert {c.device for c in profile.curves} == {0} and {c.batch for c in profile.curves} == {4} and profile.links == ()


def test_a_whole_layer_is_measured_once_for_all_its_curves(profile: Profile) -> None:
    norm = next(index for index, layer in enumerate(profile.graph.layers) if layer.name == "norm")
    for layer, step_pass in {(c.layer, c.step_pass) for c in profile.curves}:
        curves = [c for c in profile.curves if (c.layer, c.step_pass) == (layer, step_pass)]
        unsplit = [c for c in curves if (c.layer, c.dimension) != (norm, "batch")]  # over a split batch it runs in another form
        assert len({(c.seconds[-1], c.spread[-1]) for c in unsplit}) == 1
        assert all(c.units[-1] == BATCH for c in curves if c.dimension == "batch")


def test_a_profile_without_curves_over_samples_still_plans(profile: Profile, tmp_path: pathlib.Path) -> None:
    curves = tuple(c for c in profile.curves if c.dimension != "batch")
    dataclasses.replace(profile, curves=curves).save(tmp_path / "profile.json")
    assert hm.plan(hm.Profile.load(tmp_path / "profile.json"), strategy="batch").predicted is not None


def test_measured_seconds_are_positive_where_there_is_work(profile: Profile) -> None:
    for curve in profile.curves:
        assert len(curve.units) == len(curve.seconds) == len(curve.spread) and min(curve.seconds) >= 0
        if curve.step_pass == "forward":  # the others are less than the noise of a busy machine where there is little work
            assert min(curve.seconds) > 0


@pytest.mark.fast("batch", "equal", "filters", "hybrid", "single")
@pytest.mark.parametrize("strategy", ["auto", *FOR_TWO])
def test_every_strategy_plans_from_a_profile(strategy: str, profile: Profile) -> None:
    if strategy not in ("auto", *OF_SAMPLES):
        with hm.Cluster.local(["cpu:0"] * 2) as cluster:
            profile = _quick(cluster, _model(), batch_size=2)
    made = hm.plan(profile, strategy=strategy)
    assert made.predicted is not None and made.predicted.step_s > 0
    made.check(profile.graph)


def test_a_profile_comes_back_from_its_file(profile: Profile, tmp_path: pathlib.Path) -> None:
    profile.save(tmp_path / "profile.json")
    assert hm.Profile.load(tmp_path / "profile.json") == profile
    assert json.loads((tmp_path / "profile.json").read_text())["versions"].keys() == {"python", "tensorflow", "keras", "mesh-tensorflow"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "optimizer, name",
    [
        (None, "sgd(momentum=0.9)"),
        (lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(amsgrad=True)), "adam(amsgrad=True)"),
        pytest.param(lambda: keras.optimizers.Adam(amsgrad=True), "adam(amsgrad=True)", marks=pytest.mark.slow),
        pytest.param("sgd", "sgd", marks=pytest.mark.slow),
        pytest.param(lambda: keras.optimizers.SGD(momentum=0.5), "sgd(momentum=0.5)", marks=pytest.mark.slow),
        pytest.param("adam", "adam", marks=pytest.mark.slow),
        pytest.param("adamw", "adamw", marks=pytest.mark.slow),
    ],
)
def test_a_profile_names_the_optimizer_it_was_measured_with_and_serves_to_plan_for_it(optimizer: Any, name: str) -> None:
    asked = optimizer() if callable(optimizer) else optimizer
    with hm.Cluster.local(["cpu:0"]) as cluster:
        found = _quick(cluster, _small(), optimizer=asked)
    assert str(found.optimizer) == name
    assert hm.plan(found, optimizer="sgd" if asked is None else asked).strategy == "single"


@pytest.mark.slow
def test_progress_is_told_of_every_step_it_was_promised() -> None:
    told: list[str] = []
    promised: list[int] = []

    @contextlib.contextmanager
    def progress(title: str, total: int) -> Iterator[Callable[[str], None]]:
        promised.append(total)
        yield told.append

    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        _quick(cluster, _small(), progress=progress)
    assert promised == [len(told)] and all(step.endswith("on cpu:0") for step in told)


@pytest.mark.slow
def test_progress_is_shown_as_verbose_says(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    @contextlib.contextmanager
    def progress(title: str, total: int, verbose: Any) -> Iterator[Callable[[str], None]]:
        told.append(verbose)
        yield lambda step: None

    monkeypatch.setattr(module, "progress_bar", progress)
    with hm.Cluster.local(["cpu:0"]) as cluster:
        for options in ({}, {"verbose": 0}):
            _quick(cluster, _small(), **options)
        with pytest.raises(HeteroError, match="verbose is 3; use 'auto'"):
            calibrate(cluster, _small(), verbose=3)
    assert told == ["auto", 0]


def test_processors_on_one_device_are_measured_once() -> None:
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        assert distinct(cluster.devices) == [0]


def test_devices_of_one_process_are_measured_one_after_another_and_processes_at_once() -> None:
    places = ["/job:worker/task:0/device:GPU:0", "/job:worker/task:0/device:CPU:0", "/job:worker/task:1/device:CPU:0"]
    devices = [Device(f"d{i}", "CPU", "h", place, 1, "p") for i, place in enumerate(places)]
    assert by_process(devices, [0, 1, 2]) == [[0, 1], [2]] and by_process(devices, [1, 2]) == [[1], [2]]
    assert by_process([Device(place, "CPU", "h", place, 1, "p") for place in ("/device:GPU:0", "/device:CPU:0")], [0, 1]) == [[0, 1]]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"batch_size": 0}, "the batch size is 0; calibrate for a whole number of samples, at least 1"),
        ({"batch_size": 4.0}, "the batch size is 4.0; calibrate for a whole number of samples, at least 1"),
        ({"budget_s": 0}, "the budget is 0 seconds; give more than 0, or none"),
        ({"budget_s": float("nan")}, "the budget is nan seconds; give more than 0, or none"),
    ],
)
def test_a_batch_or_budget_out_of_range_is_refused(options: dict[str, Any], words: str) -> None:
    with hm.Cluster.local(["cpu:0"]) as cluster, pytest.raises(ProfileError, match=words):
        calibrate(cluster, _small(), **options)


@pytest.mark.slow
@pytest.mark.parametrize("budget_s", [None, 30, math.inf])
def test_a_budget_decides_the_effort_and_none_and_infinity_warn_of_nothing(budget_s: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def effort(graph: Any, batch: int, budget: float | None, counts: Any) -> Effort:
        asked.append(budget)
        return dataclasses.replace(effort_within(graph, batch, budget, counts), windows=EffortWindows.equal(Windows(0.02, 1)), refine_s=0.0)

    monkeypatch.setattr(module, "effort_within", effort)
    with hm.Cluster.local(["cpu:0"]) as cluster:
        again = calibrate(cluster, _small(), batch_size=4, budget_s=budget_s)
    assert asked == [budget_s] and again.curves


def test_what_is_no_cluster_or_optimizer_is_refused() -> None:
    with pytest.raises(ClusterError, match="the cluster is None, not a live Cluster; open one"):
        calibrate(None, _small())
    with hm.Cluster.local(["cpu:0"]) as cluster, pytest.raises(UnsupportedError, match="the optimizer 'nonsense' is unknown"):
        calibrate(cluster, _small(), optimizer="nonsense")


class _Counted:
    """Counts the probes that are built and the links and launch overheads that are measured."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.layers: list[str] = []
        self.others: list[str] = []
        build, link, launch = sampling.build_probe, module.measure_link, module.measure_launch_overhead

        def told(kind: list[str], name: str, function: Callable[..., Any], *given: Any) -> Any:
            kind.append(name)
            return function(*given)

        monkeypatch.setattr(sampling, "build_probe", lambda point, *rest: told(self.layers, point.probe.name, build, point, *rest))
        monkeypatch.setattr(module, "measure_link", lambda *rest: told(self.others, "link", link, *rest))
        monkeypatch.setattr(module, "measure_launch_overhead", lambda *rest: told(self.others, "launch", launch, *rest))


@pytest.mark.slow
@pytest.mark.parametrize("shares_links", [True, False])
def test_pairs_of_equal_devices_share_a_measured_link_where_the_effort_says_so(shares_links: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def effort(*given: Any) -> Effort:
        assert given[-1].pairs == 3 and given[-1].link_kinds == 1
        short = EffortWindows.equal(Windows(0.02, 1))
        return dataclasses.replace(effort_within(*given), windows=short, refine_s=0.0, shares_links=shares_links)

    def measure_link(cluster: Any, first: int, second: int, windows: Windows) -> tuple[Link, Link]:
        asked.append((first, second))
        return Link(first, second, 0.25, 1e6), Link(second, first, 0.5, 1e6)

    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(module, "effort_within", effort)
    monkeypatch.setattr(module, "measure_link", measure_link)
    monkeypatch.setattr(module, "distinct", lambda devices: list(range(len(devices))))  # as if each were in a process of its own
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        profile = calibrate(cluster, _small(), batch_size=4)
    assert asked == ([(0, 1)] if shares_links else [(0, 1), (0, 2), (1, 2)])
    ends = {(link.source, link.destination): link.latency_s for link in profile.links}
    assert ends == {(a, b): 0.25 if a < b else 0.5 for a in range(3) for b in range(3) if a != b}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> _Counted:
    monkeypatch.setattr(module, "DEVIATION", 1e9)  # on a busy machine a layer may well take another time than a moment ago
    return _Counted(monkeypatch)


def test_calibrating_again_measures_two_layers_for_a_look_and_keeps_the_rest(profile: Profile, counted: _Counted) -> None:
    profile = dataclasses.replace(profile, launch_s=0.001, feed_s_per_byte=1e-9)
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        again = _quick(cluster, _model(), earlier=profile)
    assert len(counted.layers) == 2 and counted.others == [] and set(again.curves) == set(profile.curves)
    assert (again.launch_s, again.feed_s_per_byte) == (0.001, 1e-9)


@pytest.mark.slow
def test_only_layers_that_are_new_are_measured(profile: Profile, counted: _Counted) -> None:
    model = _model()
    longer = keras.Model(model.input, L.Dense(7, name="new")(model.output))
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        again = _quick(cluster, longer, earlier=profile)
    assert set(counted.layers[2:]) == {"new"}
    kept = {(again.graph.layers[c.layer].name, c.dimension, c.step_pass): c.seconds for c in again.curves}
    for curve in profile.curves:
        assert kept[profile.graph.layers[curve.layer].name, curve.dimension, curve.step_pass] == curve.seconds


@pytest.mark.slow
def test_what_is_stale_or_of_another_optimizer_or_program_is_measured_again(counted: _Counted) -> None:
    changes: list[dict[str, Any]] = [
        {"measured_at": "2020-01-01T00:00:00+00:00"},
        {"optimizer": OptimizerSpec("adam")},
        {"versions": {"tensorflow": "1.0"}},
    ]
    with hm.Cluster.local(["cpu:0"]) as cluster:
        first = _quick(cluster, _small())
        alone = len(counted.layers)
        for change in changes:
            again = _quick(cluster, _small(), earlier=dataclasses.replace(first, **change))
            assert datetime.datetime.fromisoformat(again.measured_at).year > 2020 and again.versions == first.versions
    assert len(counted.layers) == 4 * alone and counted.others == ["launch"] * 4


@pytest.mark.slow
def test_a_device_that_is_not_what_it_was_is_measured_again_with_a_warning(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tuple(dataclasses.replace(c, seconds=tuple(1e3 * s for s in c.seconds), spread=(0.0,) * len(c.units)) for c in profile.curves)
    counted = _Counted(monkeypatch)
    text = "layers on cpu:0 deviate by .* from the earlier profile; all of cpu:0 is measured again"
    with hm.Cluster.local(["cpu:0"] * 2) as cluster, pytest.warns(CalibrationWarning, match=text):
        again = _quick(cluster, _model(), earlier=dataclasses.replace(profile, curves=slow))
    assert len(counted.layers) > 2 and counted.others == ["launch"]
    assert max(max(curve.seconds) for curve in again.curves) < max(max(curve.seconds) for curve in slow)


@pytest.mark.slow
def test_two_emulated_devices_are_measured_with_their_links_and_planned_for() -> None:
    with hm.Cluster.emulate([0.6, 0.3]) as pair:
        found = _quick(pair, _small())
    assert {curve.device for curve in found.curves} == {0, 1}
    assert {(link.source, link.destination) for link in found.links} == {(0, 1), (1, 0)}
    assert all(link.latency_s > 0 and link.bandwidth_bytes_per_s > 0 for link in found.links)
    assert found.launch_s >= 0 and found.feed_s_per_byte >= 0
    for strategy in OF_SAMPLES:
        assert hm.plan(found, strategy=strategy).devices == ("worker:0", "worker:1")


@pytest.mark.slow
def test_a_worker_killed_meanwhile_is_one_sentence_and_nothing_is_left(groups: Any, eventually: Any, process_state: Any) -> None:
    before, threads = groups(), set(threading.enumerate())
    with hm.Cluster.emulate([0.6, 0.3]) as pair:
        workers = pair.process_ids()

        def kill(step: str) -> None:
            with contextlib.suppress(ProcessLookupError):  # the other worker goes on for a while
                os.kill(workers[1], signal.SIGKILL)

        @contextlib.contextmanager
        def progress(title: str, total: int) -> Iterator[Callable[[str], None]]:
            yield kill

        with pytest.raises(WorkerError, match=r"worker:1 was killed by SIGKILL.*; open the cluster again"):
            calibrate(pair, _model(), batch_size=4, progress=progress)
    assert eventually(lambda: all(process_state(worker) in ("", "X") for worker in workers))
    assert eventually(lambda: groups() <= before)
    assert eventually(lambda: not [t for t in threading.enumerate() if t not in threads and t.name.startswith("hetero_mtf")])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hetero_mtf.calibration.calibrate.CalibrationWarning")
def test_curves_rise_and_planned_sizes_follow_when_a_device_loses_half_its_share() -> None:
    i = keras.Input((16, 16, 16))
    x = L.Conv2D(64, 3, padding="same", name="first", activation="relu")(i)
    model = keras.Model(i, L.Dense(4)(L.GlobalAveragePooling2D()(L.Conv2D(64, 3, padding="same", name="second", activation="relu")(x))))
    with hm.Cluster.emulate([1.0, 0.5]) as pair:
        before = calibrate(pair, model, batch_size=16, budget_s=30)
        pair.set_share(1, 0.25)
        after = calibrate(pair, model, batch_size=16, budget_s=30)
    ratios = sorted(
        after.seconds(layer, 1, "output", 64, step) / before.seconds(layer, 1, "output", 64, step)
        for layer in (1, 2)
        for step in ("forward", "backward")
    )
    assert ratios[1] > 1.4 and ratios[2] > 1.4, ratios
    for profile in (before, after):
        alone = [curve for curve in profile.curves if curve.dimension == "alone"]
        assert {curve.device for curve in alone} == {0, 1} and all(curve.seconds[0] > 0 for curve in alone if curve.step_pass == "forward")
    sizes = [_sizes_of_first_pair(profile) for profile in (before, after)]  # whether sending pays is another matter
    assert sizes[0][1] > sizes[1][1] and sizes[1][0] > sizes[1][1], sizes


def _sizes_of_first_pair(profile: hm.Profile) -> tuple[int, ...]:
    arrangement = arrange(profile.graph)
    return Sizer(Costs(profile)).units(arrangement.segments[0], arrangement, (0, 1))
