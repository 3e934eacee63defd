"""Small networks, clusters and profiles with known answers, for the tests of planning and report."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from hetero_mtf.devices import ClusterRecord, Device, Link, MemoryPool
from hetero_mtf.graph.records import Layer, LayerGraph, Variable
from hetero_mtf.layers import kind_of, make_layer
from hetero_mtf.planning.layout.arrangement import channels, reach_of
from hetero_mtf.planning.profile.curve import ALONE, PASSES, Curve
from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec
from hetero_mtf.planning.profile.profile import Profile, alike

_MIXING = {"activation": "relu", "use_bias": True, "kernel_l2": 0.0, "bias_l2": 0.0}
_OPTIONS: dict[str, dict[str, Any]] = {
    "Conv2D": {"kernel_size": [3, 3], "strides": [1, 1], "padding": "same", **_MIXING},
    "Dense": dict(_MIXING),
    "BatchNormalization": {"momentum": 0.99, "epsilon": 1e-3, "center": True, "scale": True, "gamma_l2": 0.0, "beta_l2": 0.0, "axis": -1},
    "ReLU": {"max_value": None, "negative_slope": 0.0, "threshold": 0.0},
    "Concatenate": {"axis": -1},
    "GlobalAveragePooling2D": {"keepdims": False},
    "Attention": {"use_scale": False},
    "Dropout": {"rate": 0.5, "seed": None, "noise_shape": None},
}


class Net:
    """A LayerGraph in the making; each method adds a layer that reads the last one, or `reads`, and returns its index."""

    def __init__(self, shape: Sequence[int] = (9, 9, 3)) -> None:
        self.layers: list[Layer] = []
        self.add("InputLayer", "input", (), shape=list(shape))

    def add(self, kind: str, name: str, reads: Sequence[int] | None = None, **attributes: Any) -> int:
        sources = (len(self.layers) - 1,) if reads is None else tuple(reads)
        shapes = [self.layers[i].output_shape for i in sources]
        self.layers.append(make_layer(name, kind, {**_OPTIONS.get(kind, {}), **attributes}, sources, shapes))
        return len(self.layers) - 1

    def conv(self, name: str, filters: int, reads: Sequence[int] | None = None, **attributes: Any) -> int:
        return self.add("Conv2D", name, reads, filters=filters, **attributes)

    def dense(self, name: str, units: int, reads: Sequence[int] | None = None, **attributes: Any) -> int:
        return self.add("Dense", name, reads, units=units, **attributes)

    def graph(self, dtype: str = "float32") -> LayerGraph:
        return LayerGraph(tuple(self.layers), dtype)


def pair_net(first: int = 12, second: int = 10, head: int = 5) -> LayerGraph:
    """Return two convolutions, a Flatten and a Dense."""
    net = Net()
    net.conv("first", first)
    net.conv("second", second)
    net.add("Flatten", "flatten")
    net.dense("head", head)
    return net.graph()


def deep_net(norm: str) -> LayerGraph:
    """Return six convolutions of many weights and few positions, between which a pipeline sends little, and norms if they are wanted."""
    net = Net((4, 4, 64))
    for number in range(6):
        net.conv(f"conv{number}", 64)
        if norm:
            net.add("BatchNormalization", f"norm{number}", trainable=norm == "trained")
    net.add("GlobalAveragePooling2D", "pool")
    net.dense("head", 5)
    return net.graph()


def residual_net(filters: int = 8) -> LayerGraph:
    """Return a stem and one residual block with batch norm whose shortcut is a convolution of its own, then a head."""
    net = Net()
    stem = net.conv("stem", filters)
    net.conv("block_a", filters)
    net.add("BatchNormalization", "block_norm")
    net.add("ReLU", "block_relu")
    main = net.conv("block_b", filters)
    short = net.conv("shortcut", filters, [stem], kernel_size=[1, 1])
    net.add("Add", "sum", [main, short])
    net.add("GlobalAveragePooling2D", "pool")
    net.dense("head", 5)
    return net.graph()


def attention_net(channels: int = 8, fewer: int = 1) -> LayerGraph:
    """Return a stem and a branch of attention over its 12 positions, whose queries and keys may have fewer channels, then a head."""
    net = Net((4, 3, 2))
    net.conv("first", channels)
    stem = net.conv("second", channels)
    parts = []
    for name, filters in (("query", channels // fewer), ("value", channels), ("key", channels // fewer)):
        net.conv(name, filters, [stem], kernel_size=[1, 1])
        parts.append(net.add("Reshape", f"{name}_positions", target_shape=[12, filters]))
    net.add("Attention", "attention", parts)
    net.add("Reshape", "volume", target_shape=[4, 3, channels])
    branch = net.add("hetero_mtf>ResidualWeight", "weight")
    net.add("Add", "sum", [stem, branch])
    net.add("GlobalAveragePooling2D", "pool")
    net.dense("head", 5)
    return net.graph()


def frozen(graph: LayerGraph) -> LayerGraph:
    """Return the graph with no variable that trains."""
    still = [
        dataclasses.replace(layer, variables=tuple(Variable(v.name, v.shape, False) for v in layer.variables)) for layer in graph.layers
    ]
    return LayerGraph(tuple(still), graph.dtype)


def cluster_of(count: int, memory_bytes: int = 2**34, same_device: bool = False) -> ClusterRecord:
    """Return a cluster of workers, or of processors on one device."""
    pool = MemoryPool("host", memory_bytes)
    devices = tuple(
        Device("cpu:0", "CPU", "here", "/device:CPU:0", memory_bytes, "host")
        if same_device
        else Device(f"worker:{i}", "CPU", "here", f"/job:worker/task:{i}/device:CPU:0", memory_bytes, "host")
        for i in range(count)
    )
    return ClusterRecord(devices, (pool,))


Speed = Callable[[float], float]


def profile_of(
    graph: LayerGraph,
    speeds: Sequence[float | Speed],
    latency_s: float = 0.0,
    bandwidth: float = 1e12,
    batch_size: int = 4,
    memory_bytes: int = 2**34,
    same_device: bool = False,
) -> Profile:
    """Return a profile in which a device does `speed` floating-point operations a second.

    Backward takes twice the forward seconds, the update a tenth. Where a speed is callable it maps the seconds of a device of
    speed 1 to those of this device.
    """
    cluster = cluster_of(len(speeds), memory_bytes, same_device)
    pairs = [(a, b) for a in range(len(speeds)) for b in range(len(speeds)) if a != b]
    links = tuple(Link(a, b, latency_s, bandwidth) for a, b in pairs)
    curves = tuple(c for device, speed in enumerate(speeds) for c in _curves(graph, device, speed, batch_size))
    pools = cluster.pools
    optimizer = OptimizerSpec("sgd", momentum=0.9)
    return Profile(cluster, graph, batch_size, curves, links, pools, optimizer, "2026-01-01", {"hetero_mtf": "0.1.0"})


def with_rest(profile: Profile, part: Callable[[int], float]) -> Profile:
    """Return the profile with whole layers measured while the other devices of their host rested too.

    Parameters
    ----------
    profile : Profile.
    part : device -> part of its layers' seconds that they then took.
    """
    together = [curve for curve in profile.curves if curve.dimension == "output" and curve.step_pass != "update"]
    known = ((curve, part(curve.device) * curve.seconds[-1]) for curve in together)
    alone = [dataclasses.replace(c, dimension=ALONE, units=c.units[-1:], seconds=(took,), spread=(0.0,)) for c, took in known]
    return dataclasses.replace(profile, curves=(*profile.curves, *alone))


def in_slabs(profile: Profile) -> Profile:
    """Return the profile with layers measured as slabs, in seconds that grow in proportion to their positions."""
    made = []
    for curve in profile.curves:
        if curve.dimension == "output" and curve.step_pass != "update" and reach_of(profile.graph, curve.layer):
            extent = profile.graph.layers[curve.layer].output_shape[0]
            made.append(Curve(curve.layer, curve.device, "space", curve.step_pass, curve.batch, (extent,), curve.seconds[-1:], (0.0,)))
    return dataclasses.replace(profile, curves=(*profile.curves, *made))


def _curves(graph: LayerGraph, device: int, speed: float | Speed, batch: int) -> list[Curve]:
    counts, made = channels(graph), []
    for index, layer in enumerate(graph.layers):
        if alike(graph)[index] != index or not layer.inputs:
            continue
        mixes = kind_of(layer).mixes
        extents = {"output": layer.units, "input": counts[layer.inputs[0]]} if mixes else {"output": counts[index]}
        for dimension, units in extents.items():
            for step_pass, factor in zip(PASSES, (1.0, 2.0, 0.1)):
                points = tuple(range(1, units + 1)) if callable(speed) else tuple(sorted({1, units}))
                whole = [factor * batch * layer.flops * u / units for u in points]
                seconds = tuple(speed(value) if callable(speed) else value / speed for value in whole)
                made.append(Curve(index, device, dimension, step_pass, batch, points, seconds, (0.0,) * len(points)))
    return made
