"""Profiles of clusters that do not exist yet: curves and links from a few figures a device instead of measurements."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from hetero_mtf.devices import ClusterRecord, Device, Link, MemoryPool
from hetero_mtf.errors import PlanError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.layers import kind_of
from hetero_mtf.planning.layout.arrangement import channels
from hetero_mtf.planning.profile.curve import PASSES, Curve
from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec
from hetero_mtf.planning.profile.profile import Profile, alike

SGD = OptimizerSpec("sgd")
_FACTOR = {"forward": 1.0, "backward": 2.0}  # operations and bytes of a pass, as a multiple of the forward pass's


@dataclasses.dataclass(frozen=True)
class Figures:
    """What is supposed of a device.

    Parameters
    ----------
    flops_per_s : floating-point operations a second in a layer that computes much.
    memory_bytes_per_s : bytes a second that it reads and writes in a layer that computes little.
    start_s : seconds to start one layer's pass.
    tile : units that it computes together: some of them take as long as all.
    memory_bytes : bytes it can hold.
    """

    flops_per_s: float
    memory_bytes_per_s: float = 2e10
    start_s: float = 2e-5
    tile: int = 8
    memory_bytes: int = 16 * 2**30


@dataclasses.dataclass(frozen=True)
class Interconnect:
    """What is supposed of the links.

    Parameters
    ----------
    devices_per_host : devices in one host.
    near_latency_s, near_bytes_per_s : latency and bandwidth between two devices of a host.
    far_latency_s, far_bytes_per_s : the same between devices of two hosts.
    """

    devices_per_host: int = 8
    near_latency_s: float = 1e-5
    near_bytes_per_s: float = 1e10
    far_latency_s: float = 5e-5
    far_bytes_per_s: float = 1.25e9


def generated_profile(
    graph: LayerGraph, figures: Sequence[Figures], batch_size: int, network: Interconnect | None = None, optimizer: OptimizerSpec = SGD
) -> Profile:
    """Return the profile of a cluster that is supposed, not measured.

    A pass with u units takes start_s + max(f(u) / flops_per_s, b(u) / memory_bytes_per_s) seconds, where f are the operations and b
    the bytes of input, output and weights at u rounded up to whole tiles; backward has twice as many of both. An update reads and
    writes weights, gradients and one slot.

    Parameters
    ----------
    figures : (devices,) Figures of each device.
    batch_size : samples per step.
    network : Interconnect; None for eight devices a host on a 10 Gbit/s network.
    optimizer : whose updates are supposed.

    Raises
    ------
    PlanError
        If there is no device, or a figure is not above zero.

    Notes
    -----
    A curve is given at both sides of the steps at 1, 2, 4, ... tiles, as an adaptive calibration would measure it. What comes of it
    is as good as the figures: calibrate once the devices are there. O(kinds of layers * devices + devices^2).

    Examples
    --------
    >>> from hetero_mtf.layers import make_layer
    >>> input_ = make_layer("input", "InputLayer", {"shape": [4]}, (), [])
    >>> options = {"units": 16, "activation": "linear", "use_bias": True, "kernel_l2": 0.0, "bias_l2": 0.0}
    >>> graph = LayerGraph((input_, make_layer("dense", "Dense", options, (0,), [(4,)])), "float32")
    >>> profile = generated_profile(graph, [Figures(1e12), Figures(5e11)], batch_size=8)
    >>> profile.curve(1, 0, "output", "forward").units
    (1, 8, 9, 16)
    """
    _check(figures)
    kinds = [index for index, first in enumerate(alike(graph)) if index == first and graph.layers[index].inputs]
    drawn: dict[Figures, list[Curve]] = {}
    for each in dict.fromkeys(figures):
        drawn[each] = [curve for index in kinds for curve in _curves(graph, index, each, batch_size)]
    curves = tuple(dataclasses.replace(curve, device=at) for at, each in enumerate(figures) for curve in drawn[each])
    cluster = _cluster(figures, network or Interconnect())
    return Profile(cluster, graph, batch_size, curves, cluster.links, cluster.pools, optimizer, "2000-01-01", {"generated": "1"})


def _check(figures: Sequence[Figures]) -> None:
    if not figures:
        raise PlanError("there is no device to suppose anything of", "give the figures of at least one")
    for at, each in enumerate(figures):
        for name, value in dataclasses.asdict(each).items():
            if not (math.isfinite(value) and (value > 0 or (name == "start_s" and value == 0))):
                raise PlanError(f"device {at} is supposed to have {name}={value:g}", "give a number above zero")


def _cluster(figures: Sequence[Figures], network: Interconnect) -> ClusterRecord:
    hosts = [f"host{at // network.devices_per_host}" for at in range(len(figures))]
    devices = tuple(
        Device(f"device:{at}", "GPU", host, f"/job:worker/task:{at}/device:GPU:0", each.memory_bytes, f"pool{at}", model="supposed")
        for at, (each, host) in enumerate(zip(figures, hosts))
    )
    near, far = (network.near_latency_s, network.near_bytes_per_s), (network.far_latency_s, network.far_bytes_per_s)
    pairs = ((a, b) for a in range(len(figures)) for b in range(a + 1, len(figures)))
    links = tuple(Link(a, b, *(near if hosts[a] == hosts[b] else far)) for a, b in pairs)
    return ClusterRecord(devices, tuple(MemoryPool(f"pool{at}", each.memory_bytes) for at, each in enumerate(figures)), links)


def _curves(graph: LayerGraph, index: int, figures: Figures, batch_size: int) -> Iterator[Curve]:
    """Yield the curves of a layer on device 0."""
    layer, counts = graph.layers[index], channels(graph)
    sides = {"output": counts[index], "input": counts[layer.inputs[0]]} if kind_of(layer).mixes else {"output": counts[index]}
    if kind_of(layer).mixes:
        sides["output"] = layer.units
    for dimension, extent in {**sides, "batch": batch_size}.items():
        units = _points(extent, figures.tile if dimension != "batch" else 1)
        for step_pass in PASSES:
            if step_pass == "update" and (dimension == "batch" or not layer.variables):
                continue
            tile = figures.tile if dimension != "batch" else 1
            parts = [min(extent, math.ceil(u / tile) * tile) / extent for u in units]
            seconds = tuple(_pass_s(graph, index, figures, batch_size, step_pass, dimension, part) for part in parts)
            yield Curve(index, 0, dimension, step_pass, batch_size, units, seconds, (0.0,) * len(units))


def _points(extent: int, tile: int) -> tuple[int, ...]:
    """Return the units at which a curve is given.

    >>> _points(64, 8)
    (1, 8, 9, 16, 17, 32, 33, 64)
    """
    points, edge = {1, extent}, tile
    while edge < extent:
        points |= {edge, edge + 1}
        edge *= 2
    return tuple(sorted(points))


def _pass_s(graph: LayerGraph, index: int, figures: Figures, batch_size: int, step_pass: str, dimension: str, part: float) -> float:
    """Return the seconds of a pass with a part of a layer's units."""
    layer = graph.layers[index]
    weights = sum(variable.size for variable in layer.variables) * graph.item_bytes
    if step_pass == "update":
        return figures.start_s + 5 * part * weights / figures.memory_bytes_per_s
    read = sum(math.prod(graph.layers[source].output_shape) for source in layer.inputs) * batch_size * graph.item_bytes
    written = math.prod(layer.output_shape) * batch_size * graph.item_bytes
    split = {"output": (not kind_of(layer).mixes, True, True), "input": (True, False, True), "batch": (True, True, False)}[dimension]
    moved = sum(n * (part if of_part else 1.0) for n, of_part in zip((read, written, weights), split))
    factor = _FACTOR[step_pass]
    computed_s = factor * part * layer.flops * batch_size / figures.flops_per_s
    return figures.start_s + max(computed_s, factor * moved / figures.memory_bytes_per_s)
