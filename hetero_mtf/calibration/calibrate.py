"""Calibration: a profile of a cluster for one network, measured on the runtime that will train it."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import datetime
import importlib.metadata
import itertools
import platform
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.calibration.alone import accompanied, heaviest, sample_alone
from hetero_mtf.calibration.budget import CalibrationWarning, Effort, effort_within, expected_alone_s, expected_links_s, link_windows
from hetero_mtf.calibration.calls import CallCost, measure_calls
from hetero_mtf.calibration.links import measure_link
from hetero_mtf.calibration.reuse import DEVIATION, LOOKS, MeasurementTarget, deviation, kept_curves, kept_link
from hetero_mtf.calibration.sampling import MeasurementContext, Sampler, sample
from hetero_mtf.devices.records import Device, Link
from hetero_mtf.errors import ProfileError
from hetero_mtf.layers import layer_graph
from hetero_mtf.planning.profile.curve import Curve
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.validity import wide_spread
from hetero_mtf.program.optimizers import UpdateRule, read_optimizer
from hetero_mtf.report.progress import progress as progress_bar
from hetero_mtf.runtime.cluster import check_live

__all__ = ["CalibrationWarning", "calibrate"]

Advance = Callable[[str], None]


def calibrate(
    cluster: Any,
    model: Any,
    batch_size: int = 64,
    optimizer: Any = None,
    budget_s: float | None = None,
    progress: Callable[[str, int], contextlib.AbstractContextManager[Advance]] | None = None,
    earlier: Profile | None = None,
) -> Profile:
    """Return the measured profile of a cluster for a network.

    Every distinct layer is timed on every distinct device, forward, backward and update, at several numbers of output and input units
    and of samples, more of them where its curve bends; then the links between devices and the call of a step.

    Parameters
    ----------
    cluster : live cluster.
    model : keras.Model, or its LayerGraph.
    batch_size : samples a step.
    optimizer : Keras optimizer, or its name, whose updates are timed; None: SGD with momentum.
    budget_s : seconds to stay near; None takes what three windows a measurement take, and one further point a curve.
    progress : (title, total) -> context manager that gives an advance function, which several threads may call at once and which
        may not block them; None: a bar on a terminal.
    earlier : a profile, of which what still holds is not measured again: curves of layers of the same structure on the same devices,
        and links, unless they are stale, or two of a device's layers now take another time.

    Raises
    ------
    ProfileError
        If the batch size or the budget is out of range.
    HeteroError
        If the model or optimizer is not supported, the cluster is not a live one, or a worker dies meanwhile.

    Warns
    -----
    CalibrationWarning
        If a measurement's spread is wide, the budget cannot be kept, or a device is not what it was.

    Notes
    -----
    Devices in processes of their own are measured at the same time, as they will work at the same time; devices of one process
    one after another. Where a host has several such devices, the layers that take most of each one's time are measured once more
    while the others rest, for plans that leave them idle. Processors on one device share its curves. Backward is measured together
    with forward, which is then taken off; its spread is that of both together. A layer with all its units and samples is
    measured once for all its curves. Batch norm with some of the samples is measured with the statistics of these alone.
    """
    _check(batch_size, budget_s)
    check_live(cluster)
    graph = layer_graph(model)
    rule, optimizer_text = _read_optimizer(optimizer, graph.dtype)
    subject = MeasurementTarget(cluster.record, graph, batch_size, optimizer_text, _versions())
    bench = _bench(cluster, subject, rule, budget_s, earlier)
    with (progress or progress_bar)("calibrating", bench.steps) as advance:
        curves, same = bench.measure_devices(advance)
        curves += bench.measure_alone(curves, advance)
        links, call = bench.measure_links(same, advance), bench.measure_call(same, advance)
    scatter = wide_spread(graph, cluster.record, curves)
    if scatter:
        warnings.warn(CalibrationWarning(scatter), stacklevel=2)
    return _profile(subject, curves, links, call)


def _check(batch_size: int, budget_s: float | None) -> None:
    if not isinstance(batch_size, int) or batch_size < 1:
        raise ProfileError(f"the batch size is {batch_size!r}; calibrate for a whole number of samples, at least 1")
    if budget_s is not None and not budget_s > 0:
        raise ProfileError(f"the budget is {budget_s:g} seconds; give more than 0, or none")


def _read_optimizer(optimizer: Any, dtype: str) -> tuple[UpdateRule, str]:
    """Return the update rule of an optimizer, SGD with momentum for None, and its name."""
    import keras

    rule, settings = read_optimizer(keras.optimizers.SGD(momentum=0.9) if optimizer is None else optimizer, dtype)
    return rule, _optimizer_text(settings)


def _profile(subject: MeasurementTarget, curves: Sequence[Curve], links: Sequence[Link], call: CallCost) -> Profile:
    measured = (tuple(curves), tuple(links), subject.record.pools)
    programs = subject.optimizer, _now().isoformat(timespec="seconds"), subject.versions
    return Profile(subject.record, subject.graph, subject.batch, *measured, *programs, call.launch_s, call.feed_s_per_byte)


def _distinct(devices: Sequence[Device]) -> list[int]:
    """Return the index of the first processor on each TensorFlow device."""
    first: dict[str, int] = {}
    for index, device in enumerate(devices):
        first.setdefault(device.tf_device, index)
    return list(first.values())


def _processes(devices: Sequence[Device], chosen: Sequence[int]) -> list[list[int]]:
    """Return the chosen devices' indices, in one list for each process that they are in."""
    found: dict[str, list[int]] = {}
    for index in chosen:
        found.setdefault(devices[index].tf_device.rpartition("/device:")[0], []).append(index)
    return list(found.values())


@dataclasses.dataclass(frozen=True)
class _LayerBench:
    """One calibration: what is measured, how, and what is known already."""

    cluster: Any
    subject: MeasurementTarget
    context: MeasurementContext
    effort: Effort
    earlier: Profile | None
    devices: Sequence[int]
    together: Sequence[int]
    pairs: Sequence[tuple[int, int]]

    @property
    def steps(self) -> int:
        """Steps of progress: the points of each device, which of them are measured alone, the links, and the call of a step."""
        points = len(self.effort.points) + self.effort.refinements
        return points * len(self.devices) + len(self.together) + len(self.pairs) + 1

    def measure_devices(self, advance: Advance) -> tuple[list[Curve], set[int]]:
        """Return the curves of all devices, those in processes of their own measured at the same time, and who is as it was."""
        processes = _processes(self.cluster.devices, self.devices)

        def measure(indices: Sequence[int]) -> list[tuple[int, list[Curve], bool]]:
            return [(index, *self._device(index, advance)) for index in indices]

        with concurrent.futures.ThreadPoolExecutor(len(processes)) as pool, _explained(self.cluster):
            found = [entry for entries in pool.map(measure, processes) for entry in entries]
        return [curve for _, curves, _ in found for curve in curves], {index for index, _, same in found if same}

    def measure_alone(self, curves: Sequence[Curve], advance: Advance) -> list[Curve]:
        """Return the curves of the heaviest layers on devices that were measured beside others, one device after another."""
        found: list[Curve] = []
        for index in self.together:
            wanted = heaviest(self.context, curves, index, self.effort.points, self.effort.alone)
            with _explained(self.cluster):
                found += sample_alone(self.context, index, wanted)
            advance(f"{self.cluster.devices[index].name} alone")
        return found

    def measure_links(self, same: set[int], advance: Advance) -> list[Link]:
        """Return the links of all pairs of devices, measured one after another, or kept between devices that are as they were."""
        windows = link_windows(self.context.windows, len(self.pairs))
        links: list[Link] = []
        for first, second in self.pairs:
            kept = kept_link(self.earlier, self.cluster.record, first, second) if {first, second} <= same else None
            with _explained(self.cluster):
                links += kept or measure_link(self.cluster, first, second, windows)
            advance(f"link {self.cluster.devices[first].name} to {self.cluster.devices[second].name}")
        return links

    def measure_call(self, same: set[int], advance: Advance) -> CallCost:
        """Return what the call of a step costs on all devices."""
        old, devices = self.earlier, self.devices
        if old is not None and old.launch_s > 0 and set(devices) <= same and len(devices) == len(_distinct(old.cluster.devices)):
            found = CallCost(old.launch_s, old.feed_s_per_byte)
        else:
            with _explained(self.cluster):
                found = measure_calls(self.cluster, devices, self.context.windows)
        advance(f"a call on {self.cluster.devices[devices[0]].name}")
        return found

    def _device(self, index: int, advance: Advance) -> tuple[list[Curve], bool]:
        """Return the curves of a device, and whether it is as it was: those that it keeps still hold."""
        points = self.effort.points
        kept = kept_curves(self.earlier, self.subject, index, points, _now())
        if kept and self._deviates(index, kept):
            kept = []
        layers = {curve.layer for curve in kept}
        wanted = [point for point in points if point.layer not in layers]
        for point in points:
            if point.layer in layers:
                advance(f"{point.probe.name} on {self.cluster.devices[index].name}")
        return kept + sample(self.context, index, self.effort, wanted, advance), bool(kept)

    def _deviates(self, index: int, kept: Sequence[Curve]) -> bool:
        """Look at two layers of a device anew, again if one seems to take another time than it did, and warn if it still does."""
        container = self.cluster.container("spot_check")
        looks: list[float] = []
        try:
            while len(looks) < LOOKS:
                looks.append(deviation(kept, self.effort.points, Sampler(self.context, index, container.name).take))
                if looks[-1] <= DEVIATION:
                    return False
        finally:
            container.release()
        name = self.cluster.devices[index].name
        text = f"layers on {name} take times that are {min(looks):.0%} beyond those of the earlier profile; all of {name} is measured again"
        warnings.warn(CalibrationWarning(text), stacklevel=2)
        return True


def _bench(cluster: Any, subject: MeasurementTarget, rule: UpdateRule, budget_s: float | None, earlier: Profile | None) -> _LayerBench:
    """Return the calibration of a subject within a budget."""
    graph, devices = subject.graph, _distinct(cluster.devices)
    turns = max(len(indices) for indices in _processes(cluster.devices, devices))
    pairs, together = list(itertools.combinations(devices, 2)), accompanied(cluster.devices, devices)
    effort = effort_within(graph, subject.batch, budget_s, turns, expected_links_s(len(pairs)) + expected_alone_s(len(together)))
    context = MeasurementContext(cluster, graph, subject.batch, rule, effort.windows)
    return _LayerBench(cluster, subject, context, effort, earlier, devices, together, pairs)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


def _versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in ("tensorflow", "keras", "mesh-tensorflow")},
    }


def _optimizer_text(optimizer: Any) -> str:
    """Return the name of a Keras optimizer, with the options that decide its slots where they are on."""
    name, config = type(optimizer).__name__.lower(), optimizer.get_config()
    if config.get("amsgrad"):
        return f"{name}(amsgrad=True)"
    momentum = config.get("momentum")
    return f"{name}(momentum={momentum:g})" if momentum else name


@contextlib.contextmanager
def _explained(cluster: Any) -> Iterator[None]:
    try:
        yield
    except tf.errors.OpError as fault:
        raise cluster.explain(fault) from fault
