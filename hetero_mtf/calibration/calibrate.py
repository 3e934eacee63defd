"""Calibration: a profile of a cluster for one network, measured on the runtime that will train it."""

from __future__ import annotations

import concurrent.futures
import contextlib
import datetime
import functools
import importlib.metadata
import itertools
import platform
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.calibration.calls import CallCost, measure_calls
from hetero_mtf.calibration.links import measure_link
from hetero_mtf.calibration.points import Point, points
from hetero_mtf.calibration.probe import Probe, build_probe
from hetero_mtf.calibration.windows import Measurement, Windows
from hetero_mtf.devices.records import Device, Link
from hetero_mtf.errors import ProfileError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.layers import layer_graph
from hetero_mtf.planning.curve import Curve
from hetero_mtf.planning.profile import Profile
from hetero_mtf.program.optimizers import UpdateRule, read_optimizer
from hetero_mtf.report.progress import progress as progress_bar
from hetero_mtf.runtime.cluster import check_live

# A limited core lets the first milliseconds after a wait run at full speed: windows are long beside them.
WINDOW_S = 0.2
WINDOWS = 3
# Layers with a small part of the work get one window of this length.
MINOR_WINDOW_S = 0.1
WIDE_SPREAD = 0.25

Advance = Callable[[str], None]
# (layer, dimension, pass) -> [(units, measurement), ...]
_Samples = dict[tuple[int, str, str], list[tuple[int, Measurement]]]


class CalibrationWarning(UserWarning):
    """Something about a calibration that its reader should know."""


def calibrate(
    cluster: Any,
    model: Any,
    batch_size: int = 64,
    optimizer: Any = None,
    budget_s: float | None = None,
    progress: Callable[[str, int], contextlib.AbstractContextManager[Advance]] | None = None,
) -> Profile:
    """Return the measured profile of a cluster for a network.

    Every distinct layer is timed on every distinct device, forward, backward and update, at several
    numbers of output and input units and of samples; then the links between devices and the call of a step.

    Parameters
    ----------
    cluster : live cluster.
    model : keras.Model, or its LayerGraph.
    batch_size : samples a step.
    optimizer : Keras optimizer, or its name, whose updates are timed; None: SGD with momentum.
    budget_s : seconds to stay near; None takes what three windows a measurement take.
    progress : (title, total) -> context manager that gives an advance function, which several threads may call at once and which
        may not block them; None: a bar on a terminal.

    Raises
    ------
    ProfileError
        If the batch size or the budget is out of range.
    HeteroError
        If the model or optimizer is not supported, the cluster is not a live one, or a worker dies meanwhile.

    Warns
    -----
    CalibrationWarning
        If a measurement's spread is wide, or the budget cannot be kept.

    Notes
    -----
    Devices in processes of their own are measured at the same time, as they will work at the same
    time; devices of one process one after another. Processors on one device share its curves. Backward is measured together
    with forward, which is then taken off; its spread is that of both together. A layer with all its units and samples is
    measured once for all its curves. Batch norm with some of the samples is measured with the statistics of these alone.
    """
    if not isinstance(batch_size, int) or batch_size < 1:
        raise ProfileError(f"the batch size is {batch_size!r}; calibrate for a whole number of samples, at least 1")
    if budget_s is not None and not budget_s > 0:
        raise ProfileError(f"the budget is {budget_s:g} seconds; give more than 0, or none")
    check_live(cluster)
    import keras

    graph = layer_graph(model)
    rule, settings = read_optimizer(keras.optimizers.SGD(momentum=0.9) if optimizer is None else optimizer, graph.dtype)
    devices = _distinct(cluster.devices)
    turns = max(len(indices) for indices in _processes(cluster.devices, devices))
    wanted, windows = _within_budget(graph, batch_size, budget_s, turns)
    pairs = list(itertools.combinations(devices, 2))
    with (progress or progress_bar)("calibrating", len(wanted) * len(devices) + len(pairs) + 1) as advance:
        curves = _measure_devices(cluster, graph, batch_size, rule, devices, wanted, windows, advance)
        links = _measure_links(cluster, pairs, windows, advance)
        call = _measure_call(cluster, devices, windows, advance)
    _warn_of_spread(graph, cluster.devices, curves)
    record, name = cluster.record, _optimizer_text(settings)
    measured = (tuple(curves), tuple(links), record.pools)
    return Profile(record, graph, batch_size, *measured, name, _now(), _versions(), call.call_s, call.feed_s_per_byte)


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


def _within_budget(graph: LayerGraph, batch: int, budget_s: float | None, turns: int = 1) -> tuple[tuple[Point, ...], Windows]:
    """Return what to measure and how: fewer windows, then fewer points, then shorter windows where the budget asks for it.

    Parameters
    ----------
    graph : the network.
    batch : samples of the whole batch.
    budget_s : seconds, or None for no limit.
    turns : devices that are measured one after another.
    """
    fine, coarse = points(graph, batch), points(graph, batch, coarse=True)
    if budget_s is None:
        return fine, Windows(WINDOW_S, WINDOWS)
    for wanted, count in ((fine, WINDOWS), (fine, 2), (fine, 1), (coarse, 1)):
        if turns * _expected_s(wanted, count) <= budget_s:
            return wanted, Windows(WINDOW_S, count)
    least = turns * _expected_s(coarse, 1)
    warnings.warn(
        CalibrationWarning(f"a budget of {budget_s:g} s is short, {least:.0f} s would do; the windows are cut, expect a wider spread"),
        stacklevel=3,
    )
    return coarse, Windows(max(0.02, WINDOW_S * budget_s / least), 1)


def _expected_s(wanted: Sequence[Point], count: int) -> float:
    """Return the seconds that measuring takes on one device: two or three loops a point, each with about a window to warm up."""
    first = {point.layer: point for point in reversed(wanted) if point.full}
    measured = [point for point in wanted if not point.full or first[point.layer] is point]
    return sum((2 + point.updates) * (2 * MINOR_WINDOW_S if point.minor else (count + 1) * WINDOW_S) for point in measured)


def _measure_devices(
    cluster: Any,
    graph: LayerGraph,
    batch: int,
    rule: UpdateRule,
    devices: Sequence[int],
    wanted: Sequence[Point],
    windows: Windows,
    advance: Advance,
) -> list[Curve]:
    """Return the curves of all devices, those in processes of their own measured at the same time."""

    def measure(indices: Sequence[int]) -> list[Curve]:
        found: list[Curve] = []
        for index in indices:
            samples = _sample(cluster, cluster.devices[index], wanted, graph.dtype, rule, windows, advance)
            found += _curves(index, batch, samples)
        return found

    processes = _processes(cluster.devices, devices)
    with concurrent.futures.ThreadPoolExecutor(len(processes)) as pool, _explained(cluster):
        return [curve for curves in pool.map(measure, processes) for curve in curves]


def _measure_links(cluster: Any, pairs: Sequence[tuple[int, int]], windows: Windows, advance: Advance) -> list[Link]:
    """Return the links of all pairs of devices, measured one after another."""
    links: list[Link] = []
    for first, second in pairs:
        with _explained(cluster):
            links += measure_link(cluster, first, second, windows)
        advance(f"link {cluster.devices[first].name} to {cluster.devices[second].name}")
    return links


def _measure_call(cluster: Any, devices: Sequence[int], windows: Windows, advance: Advance) -> CallCost:
    """Return what the call of a step costs on all devices."""
    with _explained(cluster):
        found = measure_calls(cluster, devices, windows)
    advance(f"a call on {cluster.devices[devices[0]].name}")
    return found


def _sample(
    cluster: Any, device: Device, wanted: Sequence[Point], dtype: str, rule: UpdateRule, windows: Windows, advance: Advance
) -> _Samples:
    """Return the measurements of one device; that of a whole layer serves all its curves."""
    samples: _Samples = {}
    whole: dict[int, dict[str, Measurement]] = {}
    container = cluster.container("calibration")
    try:
        for number, point in enumerate(wanted):
            found = whole.get(point.layer) if point.full else None
            if found is None:
                length = Windows(min(MINOR_WINDOW_S, windows.window_s), 1) if point.minor else windows
                found = _measure(cluster, device, point, dtype, rule, container.name, number, length)
            if point.full:
                whole[point.layer] = found
            for name, measurement in found.items():
                if (point.dimension, name) != ("batch", "update"):
                    samples.setdefault((point.layer, point.dimension, name), []).append((point.units, measurement))
            advance(f"{point.probe.name} on {device.name}")
    finally:
        container.release()
    return samples


def _measure(
    cluster: Any, device: Device, point: Point, dtype: str, rule: UpdateRule, container: str, number: int, windows: Windows
) -> dict[str, Measurement]:
    """Return the seconds of each pass of a point."""
    tf_graph = tf.Graph()
    with tf_graph.as_default():
        probe = build_probe(point, device.tf_device, dtype, rule, container, number)
    with cluster.session(tf_graph) as session:
        session.run(probe.setup)
        timed = _time_probe(session, probe, windows)
        session.run(probe.teardown)
    return timed


def _time_probe(session: Any, probe: Probe, windows: Windows) -> dict[str, Measurement]:
    def run(name: str, count: int) -> None:
        session.run(probe.passes[name], {probe.repeats: count})

    timed = windows.measure({name: functools.partial(run, name) for name in probe.passes})
    step = timed.pop("step")
    return {**timed, "backward": Measurement(max(step.seconds - timed["forward"].seconds, 0.0), step.spread)}


def _curves(device: int, batch: int, samples: _Samples) -> list[Curve]:
    found = []
    for (layer, dimension, step_pass), entries in samples.items():
        units, measured = zip(*sorted(entries, key=lambda entry: entry[0]))
        seconds, spread = tuple(m.seconds for m in measured), tuple(m.spread for m in measured)
        found.append(Curve(layer, device, dimension, step_pass, batch, units, seconds, spread))
    return found


def _warn_of_spread(graph: LayerGraph, devices: Sequence[Device], curves: Sequence[Curve]) -> None:
    """Warn once, naming the worst, if measurements that matter scatter widely."""
    largest = max((max(curve.seconds) for curve in curves), default=0.0)
    wide = [
        (spread, curve)
        for curve in curves
        for spread, seconds in zip(curve.spread, curve.seconds)
        if spread > WIDE_SPREAD and seconds > 0.05 * largest
    ]
    if wide:
        spread, curve = max(wide, key=lambda entry: entry[0])
        name = f"{graph.layers[curve.layer].name} on {devices[curve.device].name}"
        warnings.warn(
            CalibrationWarning(
                f"{len(wide)} measurements scatter widely, worst {name} by {spread:.0%}; calibrate on quiet devices, or for longer"
            ),
            stacklevel=3,
        )


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def _versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in ("tensorflow", "keras", "mesh-tensorflow")},
    }


def _optimizer_text(optimizer: Any) -> str:
    """Return the name of a Keras optimizer, with its momentum where it has one."""
    name, momentum = type(optimizer).__name__.lower(), optimizer.get_config().get("momentum")
    return f"{name}(momentum={momentum:g})" if momentum else name


@contextlib.contextmanager
def _explained(cluster: Any) -> Iterator[None]:
    try:
        yield
    except tf.errors.OpError as fault:
        raise cluster.explain(fault) from fault
