"""Faults of a plan: by itself, and for the network it is for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

from hetero_mtf.graph.records import Layer, LayerGraph
from hetero_mtf.json_records import Fault
from hetero_mtf.layers import kind_of
from hetero_mtf.planning.layout.arrangement import channels, reach_of, split_units, splits_batch
from hetero_mtf.planning.layout.records import LAYOUTS, PROOFS, DevicePart, LayerLayout, Prediction, Proof, Stage
from hetero_mtf.planning.names import GRADIENT_SYNCS, STALE_SCHEDULES
from hetero_mtf.planning.plan.collective_rule import rule_faults
from hetero_mtf.planning.plan.plan_record import PlanRecord


def plan_faults(plan: PlanRecord) -> list[Fault]:
    """Return everything that is wrong with a plan whatever the network."""
    faults = [Fault(path, text) for wrong, path, text in _entries(plan) if wrong]
    faults += plan.execution.faults(plan.batch_size, len(plan.stages))
    for index, stage in enumerate(plan.stages):
        faults += _stage_faults(stage, f"stages[{index}]", plan)
    faults += _repeated_devices(plan)
    order = [layer for stage in plan.stages for layer in stage.layers]
    if order != list(range(len(order))) or not order:
        faults.append(Fault("stages", f"hold the layers {order}, must hold every layer once, in order"))
    faults += rule_faults(plan.collectives, plan.stages)
    if plan.predicted is not None:
        faults += _prediction_faults(plan.predicted, plan.devices)
    if plan.proof is not None:
        faults += _proof_faults(plan.proof)
    return faults + _considered_faults(plan)


def graph_faults(plan: PlanRecord, graph: LayerGraph) -> list[Fault]:
    """Return where the plan's layouts do not fit the layers of a network of the right structure."""
    counts = channels(graph)
    faults = [*_shared_layer_faults(plan, graph), *_early_outputs(plan, graph)]
    held: dict[int, tuple[str, LayerLayout]] = {}
    for s, stage in enumerate(plan.stages):
        arriving: dict[int, LayerLayout] = {}
        for at, layout in enumerate(stage.layouts):
            path = f"stages[{s}].layouts[{at}]"
            faults += _layout_on_layer(layout, graph, counts, arriving, path)
            faults += _layout_of_shared(layout, graph, held, path)
            if layout.layout in ("column", "split"):
                arriving[layout.layer] = layout
    return faults


def _entries(plan: PlanRecord) -> Iterator[tuple[bool, str, str]]:
    yield not plan.digest, "digest", "is empty, must name a network"
    yield plan.dtype not in ("float32", "float64"), "dtype", f"is {plan.dtype!r}, must be float32 or float64"
    yield not plan.strategy, "strategy", "is empty, must name how the plan was made"
    yield not plan.devices, "devices", "are none, must name at least one"
    yield plan.bucket_bytes < 0, "bucket_bytes", f"is {plan.bucket_bytes}, must be 0 or more"
    yield from _gradient_sync(plan)


def _gradient_sync(plan: PlanRecord) -> Iterator[tuple[bool, str, str]]:
    chosen, path = plan.gradient_sync, "gradient_sync"
    yield chosen not in GRADIENT_SYNCS, path, f"is {chosen!r}, must be one of {', '.join(GRADIENT_SYNCS)}"
    words = "is 'butterfly_mixing', one stage on one axis must then have layers that split the batch, all into the same samples"
    yield chosen == "butterfly_mixing" and not _may_mix(plan), path, words


def _may_mix(plan: PlanRecord) -> bool:
    """Return whether layers split the batch of a plan, and all of them alike, on the only axis."""
    samples = {entry.samples for stage in plan.stages for entry in stage.layouts if entry.samples}
    apart = any(entry.samples and entry.layout != "batch" for stage in plan.stages for entry in stage.layouts)
    return len(plan.stages) == 1 and len(plan.stages[0].axes) == 1 and len(samples) == 1 and not apart


def _stage_faults(stage: Stage, path: str, plan: PlanRecord) -> list[Fault]:
    faults: list[Fault] = []
    devices = len(plan.devices)
    unknown = [d for d in stage.devices if not 0 <= d < devices]
    if unknown:
        faults.append(Fault(f"{path}.devices", f"names device {unknown[0]}, the plan has {devices} devices"))
    if not stage.devices or len(set(stage.devices)) < len(stage.devices):
        faults.append(Fault(f"{path}.devices", f"are {list(stage.devices)}, must be at least one and differ"))
    names = [name for name, _ in stage.axes]
    if len(set(names)) < len(names) or math.prod(size for _, size in stage.axes) != len(stage.devices):
        faults.append(Fault(f"{path}.axes", f"are {dict(stage.axes)}, must differ and multiply to {len(stage.devices)} devices"))
    if [layout.layer for layout in stage.layouts] != list(stage.layers):
        layers = [layout.layer for layout in stage.layouts]
        faults.append(Fault(f"{path}.layouts", f"are for layers {layers}, must be for {list(stage.layers)}"))
    if not stage.layers:
        faults.append(Fault(f"{path}.layers", "are none, a stage must have at least one"))
    for index, layout in enumerate(stage.layouts):
        faults += _layout_faults(layout, f"{path}.layouts[{index}]", dict(stage.axes), plan.batch_size)
    return faults + (_replica_faults(stage, path, plan) if len(plan.replicas) > 1 else [])


def _replica_faults(stage: Stage, path: str, plan: PlanRecord) -> list[Fault]:
    """Return where the samples of a stage's devices do not sum to those of the replicas, one after another."""
    takes = f"the replicas take {list(plan.replicas)}"
    if not any(layout.samples for layout in stage.layouts):
        return [Fault(f"{path}.layouts", f"split no batch, {takes} samples of it; every stage must split the batch so")]
    borders = set(itertools.accumulate(plan.replicas))
    return [
        Fault(f"{path}.layouts[{index}].samples", f"are {list(layout.samples)}, {takes}; no device may belong to two replicas")
        for index, layout in enumerate(stage.layouts)
        if layout.samples and not borders <= set(itertools.accumulate(layout.samples))
    ]


def _repeated_devices(plan: PlanRecord) -> Iterator[Fault]:
    """Yield a fault for each stage with a device of an earlier one, unless the schedule is interleaved."""
    first: dict[int, int] = {}
    for index, stage in enumerate(plan.stages if plan.schedule != "interleaved" else ()):
        repeated = [device for device in stage.devices if first.setdefault(device, index) != index]
        if repeated:
            words = f"have device {repeated[0]}, which stage {first[repeated[0]]} has too"
            yield Fault(f"stages[{index}].devices", f"{words}; only the schedule interleaved allows a device in several stages")


def _shared_layer_faults(plan: PlanRecord, graph: LayerGraph) -> Iterator[Fault]:
    """Yield a fault for each layer that is called in another stage than the one with its variables."""
    stage_of = {layer: at for at, stage in enumerate(plan.stages) for layer in stage.layers}
    for index, layer in enumerate(graph.layers):
        owner = graph.owner(index)
        if layer.variables and stage_of[index] != stage_of[owner]:
            other = f"{graph.layers[owner].name} of stage {stage_of[owner]}"
            words = f"layer {layer.name} of stage {stage_of[index]} shares its variables with {other}; put both into one stage"
            yield Fault(f"stages[{stage_of[index]}].layers", words)


def _early_outputs(plan: PlanRecord, graph: LayerGraph) -> Iterator[Fault]:
    """Yield a fault for each earlier stage than the last with an output, under a schedule whose losses are the last stage's."""
    for at, stage in enumerate(plan.stages[:-1] if plan.schedule in STALE_SCHEDULES else ()):
        early = [graph.layers[index].name for index in graph.outputs if index in stage.layers]
        if early:
            words = f"hold the output {early[0]}, the schedule {plan.schedule} has all outputs in the last stage"
            yield Fault(f"stages[{at}].layers", words)


def _layout_faults(layout: LayerLayout, path: str, axes: dict[str, int], batch_size: int) -> list[Fault]:
    if layout.layout not in LAYOUTS:
        return [Fault(f"{path}.layout", f"is {layout.layout!r}, must be one of {', '.join(LAYOUTS)}")]
    faults: list[Fault] = []
    if layout.layout in ("replicated", "batch", "space"):
        faults += [Fault(f"{path}.sizes", f"are {list(layout.sizes)}, must be empty for a {layout.layout} layer")] if layout.sizes else []
    else:
        faults += _parts_faults(layout.sizes, layout.axis, f"{path}.sizes", f"{path}.axis", axes)
    faults += _slab_faults(layout, path, axes)
    if layout.layout == "replicated":
        words = f"are {list(layout.samples)}, must be empty for a replicated layer"
        return [*faults, Fault(f"{path}.samples", words)] if layout.samples else faults
    if layout.samples or layout.layout == "batch":
        faults += _samples_faults(layout, path, axes, batch_size)
    return faults


def _parts_faults(parts: tuple[int, ...], axis: str, path: str, axis_path: str, axes: dict[str, int]) -> list[Fault]:
    if axis not in axes:
        return [Fault(axis_path, f"is {axis!r}, the stage has {', '.join(axes)}")]
    if len(parts) != axes[axis]:
        return [Fault(path, f"are {len(parts)}, axis {axis} has {axes[axis]} positions")]
    if not parts or min(parts) < 0 or sum(parts) < 1:
        return [Fault(path, f"are {list(parts)}, must be zero or more and sum to at least 1")]
    return []


def _samples_faults(layout: LayerLayout, path: str, axes: dict[str, int], batch_size: int) -> list[Fault]:
    faults = _parts_faults(layout.samples, layout.batch_axis, f"{path}.samples", f"{path}.batch_axis", axes)
    if not faults and sum(layout.samples) != batch_size:
        words = f"are {list(layout.samples)}, must sum to the batch size {batch_size}"
        faults.append(Fault(f"{path}.samples", words))
    if layout.sizes and layout.batch_axis == layout.axis:
        words = f"is {layout.batch_axis!r}, which is the axis of the sizes too; give samples and sizes different axes"
        faults.append(Fault(f"{path}.batch_axis", words))
    return faults


def _slab_faults(layout: LayerLayout, path: str, axes: dict[str, int]) -> list[Fault]:
    """Return what is wrong with the slabs of a layer, whatever the network."""
    if layout.dimension < 0:
        return [Fault(f"{path}.dimension", f"is {layout.dimension}, must be zero or more")]
    if layout.layout != "space":
        words = f"are {list(layout.slabs)}, must be empty for a {layout.layout} layer"
        return [Fault(f"{path}.slabs", words)] if layout.slabs else []
    faults = _parts_faults(layout.slabs, layout.slab_axis, f"{path}.slabs", f"{path}.slab_axis", axes)
    if layout.samples and layout.batch_axis == layout.slab_axis:
        words = f"is {layout.slab_axis!r}, which is the axis of the samples too; give slabs and samples different axes"
        faults.append(Fault(f"{path}.slab_axis", words))
    return faults


def _proof_faults(proof: Proof) -> list[Fault]:
    """Return what is wrong with the proof of a plan."""
    entries = [(proof.status not in PROOFS, "status", f"is {proof.status!r}, must be one of {', '.join(PROOFS)}")]
    for name in ("value_s", "bound_s", "gap"):
        entries.append((not _seconds(getattr(proof, name)), name, f"is {getattr(proof, name):g}, must be zero or more"))
    below = proof.value_s < proof.bound_s * (1 - 1e-6)
    entries.append((below, "bound_s", f"is {proof.bound_s:g}, above the {proof.value_s:g} of the plan; it must be a lower bound"))
    return [Fault(f"proof.{name}", text) for wrong, name, text in entries if wrong]


def _prediction_faults(predicted: Prediction, devices: tuple[str, ...]) -> list[Fault]:
    named = {f"predicted.{name}": getattr(predicted, name) for name in ("step_s", "forward_s", "backward_s", "update_s", "launch_s")}
    parts = [_part_faults(part, f"predicted.parts[{index}]", devices) for index, part in enumerate(predicted.parts)]
    return [*_time_faults(named), *itertools.chain(*parts)]


def _considered_faults(plan: PlanRecord) -> list[Fault]:
    """Return what is wrong with the alternatives and with the contributions of devices."""
    faults: list[Fault] = []
    for index, other in enumerate(plan.alternatives):
        path = f"alternatives[{index}]"
        faults += _time_faults({f"{path}.step_s": other.step_s} if other.step_s is not None else {})
        faults += _part_faults(other.bottleneck, f"{path}.bottleneck", plan.devices) if other.bottleneck is not None else []
    for index, contribution in enumerate(plan.contributions):
        path = f"contributions[{index}]"
        faults += _time_faults({f"{path}.step_s": contribution.step_s} if contribution.step_s is not None else {})
        if contribution.device not in plan.devices:
            faults.append(Fault(f"{path}.device", f"is {contribution.device!r}, the plan has {', '.join(plan.devices)}"))
    return faults


def _part_faults(part: DevicePart, path: str, devices: tuple[str, ...]) -> list[Fault]:
    named = {f"{path}.{name}": getattr(part, name) for name in ("compute_s", "communication_s", "idle_s", "memory_bytes")}
    unknown = [Fault(f"{path}.device", f"is {part.device!r}, the plan has {', '.join(devices)}")] if part.device not in devices else []
    return unknown + _time_faults(named)


def _time_faults(named: Mapping[str, float]) -> list[Fault]:
    return [Fault(path, f"is {value:g}, must be zero or more") for path, value in named.items() if not _seconds(value)]


def _seconds(value: float) -> bool:
    return math.isfinite(value) and value >= 0


def _layout_on_layer(
    layout: LayerLayout, graph: LayerGraph, counts: tuple[int, ...], arriving: Mapping[int, LayerLayout], path: str
) -> list[Fault]:
    layer = graph.layers[layout.layer]
    reach = reach_of(graph, layout.layer)
    legal = kind_of(layer).layouts(layer) | ({"batch"} if splits_batch(layer) else frozenset()) | ({"space"} if reach else frozenset())
    if layout.layout not in legal:
        words = f"is {layout.layout}, layer {layer.name} ({layer.kind}) can be {', '.join(sorted(legal))}"
        return [Fault(f"{path}.layout", words)]
    if layout.samples and not splits_batch(layer):
        return [Fault(f"{path}.samples", f"are {list(layout.samples)}, layer {layer.name} ({layer.kind}) needs the whole batch")]
    if layout.layout == "space":
        return _slabs_on_layer(layout, layer, len(reach), path)
    if not layout.sizes:
        return []
    units = split_units(graph, layout.layer, layout.layout, counts)
    faults: list[Fault] = []
    if sum(layout.sizes) != units:
        faults.append(Fault(f"{path}.sizes", f"sums to {sum(layout.sizes)}, layer {layer.name} has {units}"))
    for source in layer.inputs if layout.layout != "column" else ():
        other = arriving.get(source, layout)
        if (other.sizes, other.axis) != (layout.sizes, layout.axis):
            name = graph.layers[source].name
            along = "" if other.axis == layout.axis else f" along {other.axis}, not {layout.axis}"
            words = f"are {list(layout.sizes)}, layer {layer.name} reads {name} split as {list(other.sizes)}{along}, they must agree"
            faults.append(Fault(f"{path}.sizes", words))
    return faults


def _slabs_on_layer(layout: LayerLayout, layer: Layer, rank: int, path: str) -> list[Fault]:
    """Return where slabs do not fit a layer whose output has `rank` spatial dimensions."""
    if not 0 <= layout.dimension < rank:
        words = f"is {layout.dimension}, layer {layer.name} ({layer.kind}) has {rank} spatial dimensions, from 0"
        return [Fault(f"{path}.dimension", words)]
    extent = layer.output_shape[layout.dimension]
    if sum(layout.slabs) != extent:
        return [Fault(f"{path}.slabs", f"sums to {sum(layout.slabs)}, layer {layer.name} has {extent} positions there")]
    return []


def _layout_of_shared(layout: LayerLayout, graph: LayerGraph, held: dict[int, tuple[str, LayerLayout]], path: str) -> list[Fault]:
    """Return a fault where a call of a layer has another layout of its variables than the call before it."""
    layer = graph.layers[layout.layer]
    if not layer.variables:
        return []
    axis_layout = (layout.layout, layout.sizes, layout.axis) if layout.sizes else ()
    name, first = held.setdefault(graph.owner(layout.layer), (layer.name, layout))
    if axis_layout == ((first.layout, first.sizes, first.axis) if first.sizes else ()):
        return []
    words = f"is {layout.layout} {list(layout.sizes)}, {layer.name} shares its variables with {name}, which is {first.layout}"
    return [Fault(f"{path}.layout", f"{words} {list(first.sizes)}; they must agree")]
