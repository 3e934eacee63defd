"""A chain of layers that others timed on devices that are not here, as a profile of this project.

A layer is known by its seconds alone: the planner may give it to a device, or split its batch, but cannot build it. A device may be a group
of GPUs of one host that compute every layer together (tensor parallelism): its seconds are those of the group, its memory that of all
of them, and its links are the host's.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from hetero_mtf.devices import ClusterRecord, Device, Link, MemoryPool
from hetero_mtf.graph.records import Layer, LayerGraph, Variable
from hetero_mtf.layers.catalogue import make_layer
from hetero_mtf.layers.fallback.keras_call_kind import OPTION
from hetero_mtf.planning.layout.records import Stage
from hetero_mtf.planning.layout.stage_from_layouts import full_stage, split_by_samples, unsplit_stage
from hetero_mtf.planning.memory.stage_memory import stage_bytes
from hetero_mtf.planning.pipeline.group_stages import with_samples
from hetero_mtf.planning.profile.curve import PASSES, Curve, interpolated
from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec
from hetero_mtf.planning.profile.profile import Profile

Passes = tuple[float, float, float]  # seconds of the forward and the backward pass and of the update


@dataclasses.dataclass(frozen=True)
class MeasuredLayer:
    """A layer of a chain.

    Parameters
    ----------
    name : for people.
    kind : layers of one kind take the same time.
    weights : elements of its weights, all of which train.
    output : elements of its output for one sample.
    kept : elements for one sample that its backward pass keeps besides its input.
    dtype : of what it gives and keeps.
    """

    name: str
    kind: str
    weights: int
    output: int
    kept: int = 0
    dtype: str = "float32"


@dataclasses.dataclass(frozen=True)
class MeasuredDevice:
    """A device, or a group of GPUs of one host as one.

    Parameters
    ----------
    name, host : for people; devices of a host have one name of it.
    memory_bytes : of the device, or of the group together.
    seconds : kind of layer -> samples -> seconds of each pass.
    """

    name: str
    host: str
    memory_bytes: int
    seconds: Mapping[str, Mapping[int, Passes]]


def chain_graph(layers: Sequence[MeasuredLayer], input_elements: int) -> LayerGraph:
    """Return the network of a chain, with weights in float32.

    Parameters
    ----------
    layers : in order.
    input_elements : of one sample.
    """
    records = [make_layer("input", "InputLayer", {"shape": [input_elements]}, (), [])]
    for at, layer in enumerate(layers):
        option = {
            **{"digest": layer.kind, "split": "samples", "shape": [layer.output], "dtype": layer.dtype, "batch": True, "written": []},
            **{"variables": [["weights", [layer.weights], True]] if layer.weights else [], "losses": False, "flops": 0.0},
            "kept": layer.kept,
        }
        variables = (Variable("weights", (layer.weights,), True),) if layer.weights else ()
        shape, flops = (layer.output,), float(layer.output)
        records.append(Layer(layer.name, f"measured.{layer.kind}", {OPTION: option}, (at,), shape, variables, flops))
    return LayerGraph(tuple(records), "float32")


def chain_profile(
    layers: Sequence[MeasuredLayer],
    devices: Sequence[MeasuredDevice],
    links: Mapping[tuple[int, int], tuple[float, float]],
    batch_size: int,
    input_elements: int,
    optimizer: str,
) -> Profile:
    """Return the profile of a chain on devices.

    Parameters
    ----------
    layers : in order.
    devices : each with the seconds of all kinds of layers.
    links : (from, to) as indices of devices -> seconds of latency, bytes a second.
    batch_size : samples a step.
    input_elements : of one sample.
    optimizer : name of the optimizer, whose slots count.

    Notes
    -----
    Seconds at other numbers of samples than measured follow from the rule of `Profile.seconds`.
    """
    records = tuple(
        Device(device.name, "GPU", device.host, f"/job:worker/task:{at}/device:GPU:0", device.memory_bytes, f"memory:{at}")
        for at, device in enumerate(devices)
    )
    pools = tuple(MemoryPool(record.pool, record.memory_bytes) for record in records)
    measured = tuple(Link(*ends, *line) for ends, line in sorted(links.items()))
    firsts = {layer.kind: at for at, layer in reversed(list(enumerate(layers, 1)))}
    curves = [
        curve
        for (kind, index), (at, device) in itertools.product(sorted(firsts.items(), key=lambda entry: entry[1]), enumerate(devices))
        for curve in _curves(index, at, device.seconds[kind], batch_size)
    ]
    cluster = ClusterRecord(records, pools, measured)
    graph = chain_graph(layers, input_elements)
    return Profile(cluster, graph, batch_size, tuple(curves), measured, pools, OptimizerSpec(optimizer), "2000-01-01T00:00:00+00:00", {})


def even_stage(profile: Profile, layers: Sequence[int], devices: Sequence[int]) -> Stage:
    """Return the stage whose devices take equal parts of every batch.

    Parameters
    ----------
    profile : of the network and cluster.
    layers : indices of its layers.
    devices : indices of its devices.
    """
    if len(devices) == 1:
        return unsplit_stage(profile.graph, layers, devices[0])
    samples = [profile.batch_size // len(devices)] * len(devices)
    return full_stage(split_by_samples(profile.graph, layers, samples), devices)


def tensor_peaks(microbatch: Profile, stages: Sequence[Stage], in_flight: Sequence[int]) -> list[float]:
    """Return the (stages,) most bytes of tensors on a device of each stage.

    Parameters
    ----------
    microbatch : profile at the samples of a microbatch.
    stages : of a pipeline.
    in_flight : (stages,) most microbatches in flight.
    """
    held = [stage_bytes(microbatch, with_samples(stage, microbatch.batch_size)) for stage in stages]
    return [float(max(np.array(stage.peak(count)) - stage.beside)) for stage, count in zip(held, in_flight)]


def _curves(layer: int, device: int, seconds: Mapping[int, Passes], batch_size: int) -> list[Curve]:
    samples = sorted(size for size in seconds if size <= batch_size)
    curves = []
    for at, step_pass in enumerate(PASSES):
        values = tuple(seconds[size][at] for size in samples)
        over = Curve(layer, device, "batch", step_pass, batch_size, tuple(samples), values, (0.0,) * len(samples))
        if step_pass != "update":
            curves.append(over)
        whole_s = values[0] if step_pass == "update" else interpolated(over, (batch_size,))[0]
        curves.append(Curve(layer, device, "whole", step_pass, batch_size, (1,), (whole_s,), (0.0,)))
    return curves

