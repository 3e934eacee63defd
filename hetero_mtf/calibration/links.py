"""Links: the seconds that two computing devices need to exchange tensors, as collectives do.

Hops of sizes n_i that take t_i seconds give latency a and seconds a byte b:

    minimise sum_i ((a + b n_i) / t_i - 1)^2  subject to  a, b >= 0
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from scipy import optimize

from hetero_mtf.calibration.windows import Windows, repeated_run
from hetero_mtf.calibration.work import Work, work_on
from hetero_mtf.devices.records import Device, Link

# float32 elements of the tensors that are exchanged: 64 bytes, 64 KiB, 1 MiB, 4 MiB; all but the first are smaller on a slow link.
ELEMENTS = (16, 2**14, 2**18, 2**20)
LONGEST_HOP_S = 0.05  # of the largest tensors
SMALLER = (0, 2, 4, 6, 8)  # powers of two by which tensors are smaller
CHECKED = 2  # of the sizes, which a link that is kept is measured with
HOPS = 6
# Small tensors that are exchanged at once, to measure the seconds of each further one.
MESSAGES = 9
# Between two exchanges a device computes at least these seconds, and this many times the seconds of an exchange between idle devices.
LEAST_WORK_S = 0.005
WORK_TO_HOP = 3.0
# Beside exchanges that it does not wait for, a device computes this many times as long as they take.
WORK_TO_HIDE = 1.5

_Run = Callable[[int], object]


@dataclasses.dataclass(frozen=True)
class _Chains:
    """Devices that compute `HOPS` times, each next time after an exchange of tensors of one size, or without one.

    Parameters
    ----------
    swapping : elements -> operation.
    several : operation that exchanges `MESSAGES` of the smallest tensors each time.
    still : operation that computes only.
    beside : operation that computes, and meanwhile exchanges the largest tensors as often, neither waiting for the other.
    work : (devices,) how long they compute.
    """

    swapping: dict[int, tf.Operation]
    several: tf.Operation
    still: tf.Operation
    beside: tf.Operation
    work: tuple[Work, ...]


def measure_link(cluster: Any, first: int, second: int, windows: Windows) -> tuple[Link, Link]:
    """Return the links between two devices, both ways alike.

    Parameters
    ----------
    cluster : live cluster.
    first, second : indices of devices with different TensorFlow devices.

    Notes
    -----
    Both devices compute for a few milliseconds, send each other a tensor and add up the two, `HOPS` times in one session call. A hop
    takes (time with exchanges - time without) / HOPS, measured side by side. It includes the CPU's copies and the waits of a limited
    core, and the slower device counts. A hop counts as at least one between idle devices. latency + n / bandwidth is fitted to the
    hops of four sizes by non-negative least squares on relative errors. A further message takes
    (hop of `MESSAGES` small tensors - hop of one) / (MESSAGES - 1), and at most the latency. No third device sends meanwhile.
    Where neither exchanges nor computing wait for each other, a step takes e seconds a hop longer than computing alone; of a hop
    of t seconds the part 1 - e / t is hidden, measured with the largest tensors; e is the upper quartile, as the difference of two long
    runs scatters, and what is not charged wrongly makes a plan wait.
    """
    sizes, graph = _sizes(cluster, first, second), tf.Graph()
    with graph.as_default():
        chains = _chains([cluster.devices[index].tf_device for index in (first, second)], sizes)
    with cluster.session(graph) as session:
        idle = _idle_hops(session, chains, windows)
        hops = {elements: _hop(session, chains, elements, idle[elements], windows) for elements in sizes}
        message_s = _message(session, chains, windows)
        hidden = _hidden(session, chains, hops[sizes[-1]][0], windows)
    latency_s, seconds_per_byte = fitted_line([4 * elements for elements in sizes], [seconds for seconds, _ in hops.values()])
    spread = max(spread for _, spread in hops.values())
    measured = (latency_s, 1 / max(seconds_per_byte, 1e-15), spread, min(message_s, latency_s), hidden)
    return Link(first, second, *measured), Link(second, first, *measured)


def link_factor(cluster: Any, link: Link, windows: Windows) -> float:
    """Return how many times as long a tensor of one size takes over a link between computing devices as it took when it was measured.

    Parameters
    ----------
    cluster, windows : as for `measure_link`.
    link : as it was measured.
    """
    elements, graph = _sizes(cluster, link.source, link.destination)[CHECKED], tf.Graph()
    with graph.as_default():
        chains = _chains([cluster.devices[index].tf_device for index in (link.source, link.destination)], (elements,))
    with cluster.session(graph) as session:
        idle = _idle_hops(session, chains, windows)
        seconds, _ = _hop(session, chains, elements, idle[elements], windows)
    return seconds / (link.latency_s + 4 * elements / link.bandwidth_bytes_per_s)


def _sizes(cluster: Any, first: int, second: int) -> tuple[int, ...]:
    """Return the float32 elements of the tensors to exchange: on a slow link smaller ones, so that none takes long."""
    graph, tried = tf.Graph(), ELEMENTS[1]
    with graph.as_default():
        chain = _exchanges([cluster.devices[index].tf_device for index in (first, second)], tried, HOPS)
    with cluster.session(graph) as session:
        session.run(chain)
        begun_s = time.perf_counter()
        session.run(chain)
        hop_s = (time.perf_counter() - begun_s) / HOPS
    longest = [shift for shift in SMALLER if hop_s * (ELEMENTS[-1] >> shift) / tried <= LONGEST_HOP_S]
    shift = min(longest, default=SMALLER[-1])
    return (ELEMENTS[0], *(elements >> shift for elements in ELEMENTS[1:]))


def measure_idle_link(cluster: Any, first: int, second: int, windows: Windows) -> tuple[Link, Link]:
    """Return the links between two devices, both ways alike, from exchanges while neither computes: quick, and too fast by some.

    Parameters
    ----------
    cluster, first, second, windows : as for `measure_link`.
    """
    graph, devices, sizes = tf.Graph(), [cluster.devices[index].tf_device for index in (first, second)], (ELEMENTS[0], ELEMENTS[-2])
    with graph.as_default():
        chains = {(elements, hops): _exchanges(devices, elements, hops) for elements in sizes for hops in (1, 1 + HOPS)}
    with cluster.session(graph) as session:
        runs = {str(key): repeated_run(session, chain, {}) for key, chain in chains.items()}
        times = windows.measure(runs)
    hop_s = [max(times[str((n, 1 + HOPS))].seconds - times[str((n, 1))].seconds, 1e-7) / HOPS for n in sizes]
    latency_s, seconds_per_byte = fitted_line([4 * elements for elements in sizes], hop_s)
    measured = (latency_s, 1 / max(seconds_per_byte, 1e-15))
    return Link(first, second, *measured), Link(second, first, *measured)


def pair_kind(devices: Sequence[Device], first: int, second: int) -> Hashable:
    """Return what a pair has in common with those whose links are alike: of CPUs their kinds and hosts, of others the pair itself.

    Parameters
    ----------
    devices : of the cluster.
    first, second : indices of the pair.
    """
    pair = [devices[index] for index in (first, second)]
    if any(device.kind != "CPU" for device in pair):
        return first, second
    return tuple(sorted((device.host, device.model, device.cores, device.share) for device in pair))


def between(measured: Sequence[Link], first: int, second: int) -> tuple[Link, Link]:
    """Return the links of a pair that was measured as those of another one, both ways.

    Parameters
    ----------
    measured : links of the pair that was measured.
    first, second : indices of the other pair.
    """
    there, back = measured
    return dataclasses.replace(there, source=first, destination=second), dataclasses.replace(back, source=second, destination=first)


def fitted_line(sizes: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    """Return a, b >= 0 such that a + b * size comes near the seconds: min sum(((a + b n) / t - 1)^2).

    Parameters
    ----------
    sizes : (points,) bytes n.
    seconds : (points,) seconds t, above 0.

    Examples
    --------
    >>> [round(value, 6) for value in fitted_line([0, 1000, 2000], [0.1, 1.1, 2.1])]
    [0.1, 0.001]
    """
    scale = max(sizes)
    rows = np.stack([np.ones(len(sizes)), np.asarray(sizes, float) / scale], axis=1) / np.asarray(seconds, float)[:, None]
    (latency_s, slope), _ = optimize.nnls(rows, np.ones(len(sizes)))
    return float(latency_s), float(slope) / scale


def _idle_hops(session: Any, chains: _Chains, windows: Windows) -> dict[int, float]:
    """Return the seconds of a hop between devices that do not compute, by elements."""
    feed = {work.repeats: 0 for work in chains.work}
    names = {"still": chains.still, **{str(elements): chain for elements, chain in chains.swapping.items()}}
    times = dataclasses.replace(windows, window_s=windows.window_s / 2).measure(_runs(session, names, feed))
    still_s = times["still"].seconds
    return {elements: max(times[str(elements)].seconds - still_s, 1e-7) / HOPS for elements in chains.swapping}


def _hop(session: Any, chains: _Chains, elements: int, idle_s: float, windows: Windows) -> tuple[float, float]:
    """Return the seconds of a hop between devices that compute, and their spread."""
    work_s = max(LEAST_WORK_S, WORK_TO_HOP * idle_s)
    feed = {work.repeats: work.count(session, work_s) for work in chains.work}
    times = windows.times(_runs(session, {"swapping": chains.swapping[elements], "still": chains.still}, feed))
    low, middle, high = np.percentile((times["swapping"] - times["still"]) / HOPS, [25, 50, 75])
    seconds = max(float(middle), idle_s)
    return seconds, float(high - low) / seconds


def _message(session: Any, chains: _Chains, windows: Windows) -> float:
    """Return the seconds of each further tensor in a hop."""
    feed = {work.repeats: work.count(session, LEAST_WORK_S) for work in chains.work}
    times = windows.times(_runs(session, {"several": chains.several, "one": chains.swapping[ELEMENTS[0]]}, feed))
    return max(0.0, float(np.median(times["several"] - times["one"])) / HOPS / (MESSAGES - 1))


def _hidden(session: Any, chains: _Chains, hop_s: float, windows: Windows) -> float:
    """Return the part of a hop's seconds by which computing beside it takes no longer in three windows of four."""
    feed = {work.repeats: work.count(session, max(LEAST_WORK_S, WORK_TO_HIDE * hop_s)) for work in chains.work}
    times = windows.times(_runs(session, {"beside": chains.beside, "still": chains.still}, feed))
    exposed_s = float(np.percentile(times["beside"] - times["still"], 75)) / HOPS
    return min(1.0, max(0.0, 1 - exposed_s / hop_s))


def _runs(session: Any, operations: Mapping[str, tf.Operation], feed: Mapping[Any, Any]) -> dict[str, _Run]:
    return {name: repeated_run(session, operation, feed) for name, operation in operations.items()}


def _chains(devices: Sequence[str], sizes: Sequence[int]) -> _Chains:
    work = tuple(work_on(device) for device in devices)
    swapping = {elements: _chain(devices, work, elements, 1) for elements in sizes}
    several, still = (_chain(devices, work, ELEMENTS[0], count) for count in (MESSAGES, 0))
    return _Chains(swapping, several, still, _chain_beside(devices, work, sizes[-1]), work)


def _chain(devices: Sequence[str], work: Sequence[Work], elements: int, messages: int) -> tf.Operation:
    """Return the operation that computes `HOPS` times and exchanges so many tensors after each."""
    held = []
    for device in devices:
        with tf.device(device):
            held.append([tf.zeros([elements])] * max(1, messages))
    for _ in range(HOPS):
        worked = [each.after(tensors) for each, tensors in zip(work, held)]
        held = [_sums(device, list(zip(*worked))) for device in devices] if messages else worked
    with tf.control_dependencies([tensor for tensors in held for tensor in tensors]):
        return tf.no_op()


def _exchanges(devices: Sequence[str], elements: int, hops: int) -> tf.Operation:
    """Return the operation that exchanges tensors so many times, one after the other, and computes nothing else."""
    sent = []
    for device in devices:
        with tf.device(device):
            sent.append(tf.zeros([elements]))
    for _ in range(hops):
        sent = [tensor for device in devices for tensor in _sums(device, [tuple(sent)])]
    with tf.control_dependencies(sent):
        return tf.no_op()


def _chain_beside(devices: Sequence[str], work: Sequence[Work], elements: int) -> tf.Operation:
    """Return the operation that computes `HOPS` times, and exchanges the largest tensors as often without waiting for what it computes."""
    worked, exchanged = [], []
    for device in devices:
        with tf.device(device):
            worked.append([tf.zeros([ELEMENTS[0]])])
            exchanged.append([tf.zeros([elements])])
    for _ in range(HOPS):
        worked = [each.after(tensors) for each, tensors in zip(work, worked)]
        exchanged = [_sums(device, list(zip(*exchanged))) for device in devices]
    with tf.control_dependencies([tensor for tensors in (*worked, *exchanged) for tensor in tensors]):
        return tf.no_op()


def _sums(device: str, parts: Sequence[tuple[tf.Tensor, ...]]) -> list[tf.Tensor]:
    with tf.device(device):
        return [tf.add_n(list(tensors)) for tensors in parts]
