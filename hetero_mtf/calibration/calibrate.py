"""Calibration: a profile of a cluster for one network, measured on the runtime that will train it."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import datetime
import functools
import importlib.metadata
import itertools
import platform
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from hetero_mtf.calibration.alone import accompanied, by_process, distinct, heaviest, sample_alone
from hetero_mtf.calibration.calibration_budget import CalibrationWarning, DeviceCounts, Effort, effort_within
from hetero_mtf.calibration.feed_speed import measure_feed_links
from hetero_mtf.calibration.launch_overhead import LaunchOverhead, measure_launch_overhead
from hetero_mtf.calibration.links import between, link_factor, measure_link, pair_kind
from hetero_mtf.calibration.points import Point
from hetero_mtf.calibration.reuse import (
    CHECKS,
    DEVIATION,
    LINK_DEVIATION,
    MeasurementTarget,
    deviation,
    kept_corrections,
    kept_curves,
    kept_link,
)
from hetero_mtf.calibration.room import points_within, room_bytes, whole_by_parts
from hetero_mtf.calibration.rough import rough_profile
from hetero_mtf.calibration.sampling import MeasurementContext, Sampler, sample
from hetero_mtf.calibration.turns import Turns
from hetero_mtf.devices.records import Link
from hetero_mtf.errors import ProfileError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.planning.profile.corrections import Corrections
from hetero_mtf.planning.profile.curve import Curve
from hetero_mtf.planning.profile.feed_link import FeedLink
from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.validity import scatter, wide_spread
from hetero_mtf.program.optimizer_reading import optimizer_spec, read_optimizer
from hetero_mtf.program.optimizers import UpdateRule
from hetero_mtf.report.progress import check_verbose
from hetero_mtf.report.progress import progress as progress_bar
from hetero_mtf.runtime.cluster import check_live

Advance = Callable[[str], None]
SCATTERED = 0.5  # the median spread of a device from which it is measured again, alone
NOT_QUIET = 1.0  # the median spread from which nothing is planned with what was measured


def calibrate(
    cluster: Any,
    model: Any,
    batch_size: int = 64,
    optimizer: Any = None,
    budget_s: float | None = None,
    progress: Callable[[str, int], contextlib.AbstractContextManager[Advance]] | None = None,
    earlier: Profile | None = None,
    verbose: str | int = "auto",
) -> Profile:
    """Return the measured profile of a cluster for a network.

    Every distinct layer is timed on every distinct device, forward, backward and update, at several numbers of output and input units
    and of samples, more of them where its curve bends; then the links between devices and the launch overhead of a step.

    Parameters
    ----------
    cluster : live cluster.
    model : keras.Model, or its LayerGraph.
    batch_size : samples a step.
    optimizer : Keras optimizer, or its name, whose updates are timed; None: SGD with momentum.
    budget_s : seconds to stay near. None: 45, or what the least effort takes in a large network, and never more than a thorough
        calibration takes. `math.inf`: a thorough one, of three windows a measurement and one further point a curve.
    progress : (title, total) -> context manager that gives an advance function for several threads; None: as `verbose` says.
    earlier : a profile, whose valid part is not measured again: curves of layers of the same structure on the same devices,
        and links, unless they are stale, or two of a device's layers deviate from their curves now.
    verbose : "auto" or 1 for a bar on the error stream, or now and then a line where it is a log file; 2 for lines, 0 for nothing.

    Raises
    ------
    ProfileError
        If the batch size or the budget is out of range, or a device scatters so much, also while others are idle, that it is not quiet.
    HeteroError
        If the model or optimizer is not supported, the cluster is not a live one, or a worker dies meanwhile.

    Warns
    -----
    CalibrationWarning
        If a measurement's spread is wide, a given budget cannot be kept, or a device's layers deviate from the earlier profile.

    Notes
    -----
    Devices in processes of their own are measured at the same time, as they will work; devices of one process one after another. Where
    a host has several such devices, the layers that take most of each one's time are measured once more while the others are idle, for
    plans that leave them so. Processors on one device share its curves. Backward is measured together with forward, which is then
    subtracted; its spread is that of both. A layer with all its units and samples is measured once for all its curves, but that of
    batch norm over samples in its form for a split batch, on the device alone. Equal CPUs share links where time is short. A layer that
    a device has no room for is measured in slabs of space, or with some of the samples.
    """
    _check(batch_size, budget_s, verbose)
    bench = _bench(cluster, model, batch_size, optimizer, budget_s, earlier, Turns())
    with (progress or functools.partial(progress_bar, verbose=verbose))("calibrating", bench.steps) as advance:
        profile = _measured(bench, advance, bench.quiet)
    _warn_of_spread(bench.target, profile.curves)
    return profile


def calibrate_in_turns(turns: Turns, cluster: Any, model: Any, batch_size: int, optimizer: Any = None) -> Profile:
    """Return the measured profile of a cluster for a network, as `calibrate` does, where measurements are taken in turns with steps.

    Parameters
    ----------
    turns : when measurements may be taken.
    cluster, model, batch_size, optimizer : as for `calibrate`.

    Raises
    ------
    HeteroError
        As `calibrate`.
    """
    _check(batch_size, None, 0)
    return _measured(_bench(cluster, model, batch_size, optimizer, None, None, turns), lambda title: None)


def _measured(bench: _LayerBench, advance: Advance, checked: Callable[[list[Curve]], list[Curve]] = list) -> Profile:
    curves, unchanged = bench.measure_devices(advance)
    curves = checked(curves)
    curves += bench.measure_alone(curves, advance)
    links, overhead = bench.measure_links(unchanged, advance), bench.measure_launch(unchanged, advance)
    profile = _profile(bench.target, curves, links, overhead, kept_corrections(bench.earlier, bench.target, unchanged))
    return dataclasses.replace(profile, feed_links=bench.measure_feeds())


def _check(batch_size: int, budget_s: float | None, verbose: str | int) -> None:
    check_verbose(verbose)
    if not isinstance(batch_size, int) or batch_size < 1:
        raise ProfileError(f"the batch size is {batch_size!r}", "calibrate for a whole number of samples, at least 1")
    if budget_s is not None and not budget_s > 0:
        raise ProfileError(f"the budget is {budget_s:g} seconds", "give more than 0, or none")


def _warn_of_spread(target: MeasurementTarget, curves: Sequence[Curve]) -> None:
    spread_warning = wide_spread(target.graph, target.record, curves)
    if spread_warning:
        warnings.warn(CalibrationWarning(spread_warning), stacklevel=3)


def rough_calibration(cluster: Any, model: Any, batch_size: int, optimizer: Any = None) -> Profile:
    """Return a rough profile of a cluster for a network, measured in about two seconds.

    Parameters
    ----------
    cluster, model, batch_size, optimizer : as for `calibrate`.

    Raises
    ------
    HeteroError
        As `calibrate`.
    """
    _check(batch_size, None, 0)
    check_live(cluster)
    graph = layer_graph(model)
    rule, spec = _read_optimizer(optimizer, graph)
    with _explained(cluster):
        return rough_profile(cluster, MeasurementTarget(cluster.record, graph, batch_size, spec, versions()), rule)


def _read_optimizer(optimizer: Any, graph: LayerGraph) -> tuple[UpdateRule, OptimizerSpec]:
    """Return the update rule of an optimizer, SGD with momentum for None, and its record."""
    rule, settings = read_optimizer(
        keras.optimizers.SGD(momentum=0.9) if optimizer is None else optimizer, graph.dtype, graph.has_one_variable_dtype
    )
    return rule, optimizer_spec(settings)


def _profile(
    target: MeasurementTarget, curves: Sequence[Curve], links: Sequence[Link], overhead: LaunchOverhead, corrections: Corrections
) -> Profile:
    measured = (tuple(curves), tuple(links), target.record.pools)
    programs = target.optimizer, _now().isoformat(timespec="seconds"), target.versions
    return Profile(
        target.record, target.graph, target.batch, *measured, *programs, overhead.launch_s, overhead.feed_s_per_byte, corrections
    )


@dataclasses.dataclass(frozen=True)
class _LayerBench:
    """One calibration: its target, devices and effort, and the earlier profile."""

    cluster: Any
    target: MeasurementTarget
    context: MeasurementContext
    effort: Effort
    earlier: Profile | None
    devices: Sequence[int]
    together: Sequence[int]
    pairs: Sequence[tuple[int, int]]

    @property
    def steps(self) -> int:
        """Steps of progress: the points of each device, which of them are measured alone, the links, and the launch overhead."""
        points = len(self.effort.points) + self.effort.refinements
        return points * len(self.devices) + len(self.together) + len(self.pairs) + 1

    def measure_devices(self, advance: Advance) -> tuple[list[Curve], set[int]]:
        """Return the curves of all devices, those in processes of their own measured at the same time, and those that are unchanged."""
        processes = by_process(self.cluster.devices, self.devices)

        def measure(indices: Sequence[int]) -> list[tuple[int, list[Curve], bool]]:
            return [(index, *self._device(index, advance)) for index in indices]

        with concurrent.futures.ThreadPoolExecutor(len(processes)) as pool, _explained(self.cluster):
            measured = [entry for entries in pool.map(measure, processes) for entry in entries]
        return [curve for _, curves, _ in measured for curve in curves], {index for index, _, holds in measured if holds}

    def quiet(self, curves: list[Curve]) -> list[Curve]:
        """Return the curves, those of devices that scatter measured again while the others are idle.

        Raises
        ------
        ProfileError
            If a device scatters then too, so that nothing can be planned with what was measured.
        """
        for device in self.devices:
            found = scatter(curves, device)
            if found <= SCATTERED:
                continue
            again, _ = self._device(device, lambda title: None)
            curves = [curve for curve in curves if curve.device != device] + again
            name = self.cluster.devices[device].name
            text = f"measurements on {name} scattered by {found:.0%}; measured again alone they scatter by {scatter(again, device):.0%}"
            if scatter(again, device) > NOT_QUIET:
                raise ProfileError(f"{text}, so {name} is not quiet", "end what else runs there, and calibrate again")
            warnings.warn(CalibrationWarning(text), stacklevel=2)
        return curves

    def measure_alone(self, curves: Sequence[Curve], advance: Advance) -> list[Curve]:
        """Return the curves of the heaviest layers on devices that were measured beside others, one device after another."""
        alone_curves: list[Curve] = []
        for index in self.together:
            wanted = heaviest(self.context, curves, index, self._points(index), self.effort.alone)
            with _explained(self.cluster):
                alone_curves += sample_alone(self.context, index, wanted)
            advance(f"{self.cluster.devices[index].name} alone")
        return alone_curves

    def measure_links(self, unchanged: set[int], advance: Advance) -> list[Link]:
        """Return the links of all pairs of devices, measured one after another, or kept between unchanged devices."""
        windows, devices = self.effort.windows.links, self.cluster.devices
        links: list[Link] = []
        holding: dict[Hashable, bool] = {}
        measured: dict[Hashable, Sequence[Link]] = {}
        for first, second in self.pairs:
            kept = kept_link(self.earlier, self.cluster.record, first, second) if {first, second} <= unchanged else None
            pair = pair_kind(devices, first, second) if self.effort.shares_links else (first, second)
            if kept is not None and pair not in holding:
                holding[pair] = self._link_holds(kept[0])
            kept = kept if holding.get(pair, False) else None
            if kept is None and pair not in measured:
                with _explained(self.cluster), self.context.turns.take():
                    measured[pair] = measure_link(self.cluster, first, second, windows)
            links += kept or between(measured[pair], first, second)
            advance(f"link {devices[first].name} to {devices[second].name}")
        return links

    def _link_holds(self, link: Link) -> bool:
        """Measure one size over a link that would be kept, and warn if it takes another time than it took."""
        with _explained(self.cluster), self.context.turns.take():
            factor = link_factor(self.cluster, link, self.effort.windows.links)
        if 1 / LINK_DEVIATION <= factor <= LINK_DEVIATION:
            return True
        names = " and ".join(self.cluster.devices[index].name for index in (link.source, link.destination))
        text = f"a transfer between {names} takes {factor:.2g} times as long as in the earlier profile; the link is measured again"
        warnings.warn(CalibrationWarning(text), stacklevel=2)
        return False

    def measure_launch(self, unchanged: set[int], advance: Advance) -> LaunchOverhead:
        """Return the launch overhead of a step on all devices, measured or kept where all devices are unchanged."""
        old, devices = self.earlier, self.devices
        if old is not None and old.launch_s > 0 and set(devices) <= unchanged and len(devices) == len(distinct(old.cluster.devices)):
            overhead = LaunchOverhead(old.launch_s, old.feed_s_per_byte)
        else:
            with _explained(self.cluster), self.context.turns.take():
                overhead = measure_launch_overhead(self.cluster, devices, self.effort.windows.full)
        advance(f"launch overhead on {self.cluster.devices[devices[0]].name}")
        return overhead

    def measure_feeds(self) -> tuple[FeedLink, ...]:
        """Return the links from this program to the devices; they are measured every time, which takes a second."""
        with _explained(self.cluster), self.context.turns.take():
            return measure_feed_links(self.cluster, self.devices)

    def _device(self, index: int, advance: Advance) -> tuple[list[Curve], bool]:
        """Return the curves of a device, and whether it is unchanged: earlier curves of it are kept."""
        points = self._points(index)
        kept = kept_curves(self.earlier, self.target, index, points, _now())
        if kept and self._deviates(index, kept):
            kept = []
        layers = {curve.layer for curve in kept}
        wanted = [point for point in points if point.layer not in layers]
        left_out = self.effort.points[len(points) :]  # as many as there is no room for
        for point in [*(point for point in points if point.layer in layers), *left_out]:
            advance(f"{point.probe.name} on {self.cluster.devices[index].name}")
        measured = sample(self.context, index, self.effort, wanted, advance)
        return kept + whole_by_parts(measured, self.effort.points), bool(kept)

    def _points(self, index: int) -> Sequence[Point]:
        """Return what is measured first on a device: what there is room for."""
        room = room_bytes(self.target.record, index)
        return points_within(self.target.graph, self.effort.points, self.target.batch, self.context.rule, room)

    def _deviates(self, index: int, kept: Sequence[Curve]) -> bool:
        """Measure two layers of a device again, repeat that if one deviates from its kept curves, and warn if it still does."""
        container = self.cluster.container("spot_check")
        deviations: list[float] = []
        try:
            while len(deviations) < CHECKS:
                deviations.append(deviation(kept, self._points(index), Sampler(self.context, index, container.name).take))
                if deviations[-1] <= DEVIATION:
                    return False
        finally:
            container.release()
        name = self.cluster.devices[index].name
        text = f"layers on {name} deviate by {min(deviations):.0%} from the earlier profile; all of {name} is measured again"
        warnings.warn(CalibrationWarning(text), stacklevel=2)
        return True


def _bench(
    cluster: Any, model: Any, batch_size: int, optimizer: Any, budget_s: float | None, earlier: Profile | None, turns: Turns
) -> _LayerBench:
    """Return a calibration within a budget."""
    check_live(cluster)
    graph, devices = layer_graph(model), distinct(cluster.devices)
    rule, spec = _read_optimizer(optimizer, graph)
    target = MeasurementTarget(cluster.record, graph, batch_size, spec, versions())
    sequential_devices = max(len(indices) for indices in by_process(cluster.devices, devices))
    pairs, together = list(itertools.combinations(devices, 2)), accompanied(cluster.devices, devices)
    kinds = {pair_kind(cluster.devices, *pair) for pair in pairs}
    counts = DeviceCounts(sequential_devices, len(pairs), len(together), len(kinds), len(cluster.devices))
    effort = effort_within(graph, target.batch, budget_s, counts)
    context = MeasurementContext(cluster, graph, target.batch, rule, effort.windows, turns)
    return _LayerBench(cluster, target, context, effort, earlier, devices, together, pairs)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


def versions() -> dict[str, str]:
    """Return the versions of the programs that a step's time depends on, by name."""
    # the modules' own numbers: keras-nightly and tensorflow-cpu are distributions of other names with the same modules
    modules = {"tensorflow": tf.__version__, "keras": keras.__version__}
    return {"python": platform.python_version(), **modules, "mesh-tensorflow": importlib.metadata.version("mesh-tensorflow")}


@contextlib.contextmanager
def _explained(cluster: Any) -> Iterator[None]:
    try:
        yield
    except tf.errors.OpError as fault:
        raise cluster.explain(fault) from fault
