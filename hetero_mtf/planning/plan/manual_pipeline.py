"""Manual pipelines: the first layer, the devices and the shares of each stage, as a person gives them."""

from __future__ import annotations

import dataclasses
import difflib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from hetero_mtf.errors import PlanError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.json_records import Fault, listed
from hetero_mtf.planning.layout.blocks import leading_inputs, shared_spans
from hetero_mtf.planning.layout.manual import device_index, numbers
from hetero_mtf.planning.layout.records import Stage
from hetero_mtf.planning.layout.stages import SPLITS, Group, group_stage
from hetero_mtf.planning.schedule.execution import Execution
from hetero_mtf.planning.solvers.apportionment import check_shares


@dataclasses.dataclass(frozen=True)
class ManualPipeline:
    """A manual pipeline, not checked yet.

    Parameters
    ----------
    starts : (stages,) name or index of the layer that each stage begins with.
    devices : (stages, devices) name or index of each stage's devices, replica after replica.
    shares : (stages, members) relative shares inside each replica of a stage.
    split : "filters" or "batch".
    batch_size : samples a step.
    execution : schedule, microbatches and replicas.
    """

    starts: Sequence[int | str]
    devices: Sequence[Sequence[int | str]]
    shares: Sequence[Sequence[float]]
    split: str
    batch_size: Any
    execution: Execution


def pipeline_stages(graph: LayerGraph, names: Sequence[str], pipeline: ManualPipeline) -> tuple[Stage, ...]:
    """Return the stages of a manual pipeline.

    Parameters
    ----------
    names : (devices,) names of the cluster's devices.

    Raises
    ------
    PlanError
        If anything is wrong with it; all faults are named at once, each with the nearest thing that is possible.
    """
    execution, starts = pipeline.execution, _listed(pipeline.starts)
    faults = execution.faults(pipeline.batch_size, len(starts))
    if pipeline.split not in SPLITS:
        faults.append(Fault("split", f"is {pipeline.split!r}, must be one of {', '.join(SPLITS)}"))
    firsts = _Starts(graph, faults).read(starts)
    groups = _StageGroups(names, max(len(execution.replicas), 1), faults).read(pipeline, len(starts))
    if faults:
        raise PlanError(f"the pipeline has {listed(faults)}", "correct them")
    replicas = execution.replicas or (pipeline.batch_size,)
    stops = [*firsts[1:], len(graph.layers)]
    return tuple(group_stage(graph, first, end, group, replicas) for first, end, group in zip(firsts, stops, groups))


def _listed(value: Any) -> list[Any]:
    """Return a list or tuple as a list; anything else as one entry."""
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]


class _Starts:
    """Reader of the first layers of stages, which adds faults to a list."""

    def __init__(self, graph: LayerGraph, faults: list[Fault]) -> None:
        self.graph, self.faults = graph, faults
        self._names = [layer.name for layer in graph.layers]
        self._inputs = leading_inputs(graph)

    def read(self, given: Sequence[Any]) -> list[int]:
        """Return the first layer of each stage; inputs in front belong to the first stage."""
        computing = len(self._names) - self._inputs
        if not given:
            self._add("starts", f"are none, must name the layer that each stage begins with, the first {self._named(self._inputs)}")
        if len(given) > max(computing, 1):
            words = f"are {len(given)} stages, the network has {computing} layers after its inputs; give {max(computing, 1)} at most"
            self._add("starts", words)
        indices = [self._layer(at, value) for at, value in enumerate(given)]
        if None in indices or not indices or self.faults_of("starts"):
            return []
        layers = [layer for layer in indices if layer is not None]
        self._check_order(layers)
        self._check_first(layers)
        self._check_shared(layers)
        return [0, *layers[1:]]

    def faults_of(self, path: str) -> bool:
        """Return whether a path has a fault already."""
        return any(fault.path == path for fault in self.faults)

    def _layer(self, at: int, value: Any) -> int | None:
        """Return the index of the layer that a start names, None if there is none."""
        count = len(self._names)
        if isinstance(value, int) and not isinstance(value, bool):
            if 0 <= value < count:
                return value
            self._add(f"starts[{at}]", f"is {value}, the network has the layers 0 to {count - 1}")
        elif isinstance(value, str):
            if value in self._names:
                return self._names.index(value)
            near = difflib.get_close_matches(value, self._names, 1, 0.0)
            self._add(f"starts[{at}]", f"is {value!r}, the network has no such layer; the nearest is {near[0]!r}")
        else:
            self._add(f"starts[{at}]", f"is {value!r}, must be a layer's name or index")
        return None

    def _check_order(self, layers: Sequence[int]) -> None:
        for at, (before, layer) in enumerate(itertools.pairwise(layers), 1):
            if layer <= before:
                words = f"is {self._named(layer)}, not after {self._named(before)}; stages run in the order of the layers"
                in_order = ", ".join(repr(self._names[index]) for index in sorted(set(layers)))
                self._add(f"starts[{at}]", f"{words}, such as {in_order}")

    def _check_first(self, layers: Sequence[int]) -> None:
        if layers[0] > self._inputs:
            words = f"is {self._named(layers[0])}, the first stage begins with the network, at {self._named(self._inputs)}"
            self._add("starts[0]", words)
        if len(layers) > 1 and layers[0] < layers[1] <= self._inputs:
            least = min(self._inputs + 1, len(self._names) - 1)
            words = f"is {self._named(layers[1])}, which leaves stage 0 nothing but inputs; the first possible is {self._named(least)}"
            self._add("starts[1]", words)

    def _check_shared(self, layers: Sequence[int]) -> None:
        for (at, layer), (first, last) in itertools.product(enumerate(layers), shared_spans(self.graph)):
            if at and first < layer <= last:
                calls = f"{self._named(first)} and {self._named(last)}, which share their variables"
                after = f" or after {self._named(last)}" if last + 1 < len(self._names) else ""
                words = f"is {self._named(layer)}, which lies between {calls}"
                self._add(f"starts[{at}]", f"{words}; begin the stage at {self._named(first)}{after}")

    def _named(self, layer: int) -> str:
        return f"{self._names[layer]!r} (layer {layer})" if layer < len(self._names) else f"layer {layer}"

    def _add(self, path: str, text: str) -> None:
        self.faults.append(Fault(path, text))


class _StageGroups:
    """Reader of the devices and shares of stages, which adds faults to a list.

    Parameters
    ----------
    names : (devices,) names of the cluster's devices.
    replicas : number of replicas, at least 1.
    """

    def __init__(self, names: Sequence[str], replicas: int, faults: list[Fault]) -> None:
        self.names, self.replicas, self.faults = names, replicas, faults

    def read(self, pipeline: ManualPipeline, stages: int) -> list[Group]:
        """Return the group of each stage."""
        devices, shares = _listed(pipeline.devices), _listed(pipeline.shares)
        for path, given in (("devices", devices), ("shares", shares)):
            if len(given) != stages:
                words = f"are for {len(given)} stages, starts begin {stages}; give one list a stage"
                self.faults.append(Fault(path, words))
        members = [list(self._members(f"devices[{at}]", at, group)) for at, group in enumerate(devices)]
        self._check_repeated_devices(members, pipeline.execution.schedule)
        groups = []
        for at, (group, given) in enumerate(zip(members, shares)):
            count = len(_listed(devices[at])) // self.replicas
            rows = tuple(tuple(group[row * count : (row + 1) * count]) for row in range(self.replicas))
            groups.append(Group(rows, tuple(self._shares(f"shares[{at}]", at, given, count)), pipeline.split))
        return groups

    def _members(self, path: str, stage: int, group: Any) -> Iterator[int]:
        """Yield the indices of those of a stage's devices that are in the cluster."""
        given = _listed(group)
        if not given:
            words = f"are a group of zero devices, stage {stage} needs one at least"
            self.faults.append(Fault(path, f"{words}; give it one, or leave out starts[{stage}] and join its layers to a neighbour"))
        if len(given) % self.replicas:
            near = max(len(given) // self.replicas, 1) * self.replicas
            words = f"are {len(given)}, {self.replicas} replicas need as many devices each; give {near} or {near + self.replicas}"
            self.faults.append(Fault(path, words))
        seen: set[int] = set()
        for device in given:
            try:
                index = device_index(device, self.names)
            except PlanError as fault:
                self.faults.append(Fault(path, str(fault)))
                continue
            if index in seen:
                self.faults.append(Fault(path, f"name {self.names[index]} (device {index}) twice; name each once"))
            seen.add(index)
            yield index

    def _check_repeated_devices(self, members: Sequence[Sequence[int]], schedule: str) -> None:
        free = [at for at in range(len(self.names)) if not any(at in group for group in members)]
        stages_of: dict[int, list[int]] = {}
        for stage, group in enumerate(members):
            for device in dict.fromkeys(group):
                stages_of.setdefault(device, []).append(stage)
        for device, stages in stages_of.items():
            if len(stages) > 1 and schedule != "interleaved":
                other = f", or use device {free[0]} ({self.names[free[0]]}), which is in none" if free else ""
                words = f"have {self.names[device]} (device {device}) in stages {', '.join(map(str, stages))}"
                remedy = f'use schedule="interleaved"{other}'
                self.faults.append(Fault("devices", f"{words}, which schedule {schedule} does not allow; {remedy}"))

    def _shares(self, path: str, stage: int, given: Any, count: int) -> list[float]:
        """Return the shares of a stage, equal ones where they are wrong."""
        try:
            values = numbers(given)
            if len(values) == count:
                check_shares(values)
                return values
            inside = " in each replica" if self.replicas > 1 else ""
            self.faults.append(Fault(path, f"are {len(values)}, stage {stage} has {count} devices{inside}; give one share a device"))
        except PlanError as fault:
            self.faults.append(Fault(path, str(fault)))
        return [1.0] * count
