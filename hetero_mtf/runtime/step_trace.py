"""Compute, communication and idle seconds of each device in one step, summed over TensorFlow's trace of a session call."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.devices.records import Device
from hetero_mtf.runtime.layer_trace import LayerTrace, shared_out_s, source_of

_TRANSFER = "RecvTensor"
_ENDPOINTS = re.compile(r" from (\S+) to (\S+)$")
_TASK = re.compile(r"/(stage\d+_(?:forward|backward)\d+)/")  # as `hetero_mtf.program.passes` names operations
_GIVEN = re.compile(r" = (?:Const|Fill|NoOp)\(")  # executed before a task's inputs exist

Interval = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class DeviceTrace:
    """Compute, communication and idle seconds of one device; the three sum to the step.

    Parameters
    ----------
    device : the device's name.
    compute_s : seconds in which it computed at least one operation.
    communication_s : further seconds in which a tensor was sent from it or to it. Communication during computation counts as compute.
    idle_s : the other seconds.
    overlapped_s : seconds of `compute_s` in which a tensor was sent from it or to it: communication that took no time of its own.
    """

    device: str
    compute_s: float
    communication_s: float
    idle_s: float
    overlapped_s: float = 0.0


@dataclasses.dataclass(frozen=True)
class TaskTrace:
    """When one device computed one task of a pipeline.

    Parameters
    ----------
    device : the device's name.
    task : such as "stage0_forward3".
    start_s, end_s : when the first of its operations began and the last one ended, seconds from the step's first one on any device.
    compute_s : seconds in which it computed at least one operation of the task.
    """

    device: str
    task: str
    start_s: float
    end_s: float
    compute_s: float


@dataclasses.dataclass(frozen=True)
class StepTrace:
    """One traced step.

    Parameters
    ----------
    step_s : seconds of the whole step, the client's included; tracing makes it a little longer.
    parts : one for each TensorFlow device; processors on one device cannot be distinguished; the name is that of the first.
    tasks : the tasks of a pipeline in the order they began; empty where there is one stage and one microbatch.
    layers : compute of each layer's passes on each TensorFlow device, by device, layer and pass.
    launch_s : seconds of every device's `idle_s` in which none had begun: launching the step, and feeding what is not staged.
    collected_s : seconds of every device's `idle_s` in which all had ended: fetching, and collecting the trace.
    """

    step_s: float
    parts: tuple[DeviceTrace, ...]
    tasks: tuple[TaskTrace, ...] = ()
    layers: tuple[LayerTrace, ...] = ()
    launch_s: float = 0.0
    collected_s: float = 0.0


def traced(run: Callable[..., Any], devices: Sequence[Device], clock: Callable[[], float] = time.perf_counter) -> tuple[Any, StepTrace]:
    """Return what a session call returns, and its trace.

    Parameters
    ----------
    run : makes the call with the options and run_metadata it is given, as `tf.compat.v1.Session.run` takes them.
    devices : the devices to sum up.
    clock : gives seconds.
    """
    metadata = tf.compat.v1.RunMetadata()
    options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
    began_s, start_s = time.time(), clock()
    answer = run(options=options, run_metadata=metadata)
    return answer, read_trace(metadata.step_stats, devices, clock() - start_s, began_s)


def read_trace(step_stats: Any, devices: Sequence[Device], step_s: float, began_s: float | None = None) -> StepTrace:
    """Return the sums of a trace.

    Parameters
    ----------
    step_stats : StepStats of a session call.
    devices : the devices to sum up.
    step_s : seconds of the call.
    began_s : when it was made, seconds since 1970 as the trace has them; None leaves out what passed before and after devices worked.

    Notes
    -----
    Operations and transfers overlap, so the time in which there is at least one is counted. A transfer lasts from when its tensor
    exists until it is received. Workers of one machine share a clock; on several machines their clocks must agree to about a
    millisecond. On a GPU an operation is the launch of its kernels. O(n log n) for n operations.
    """
    transfers: dict[tf.DeviceSpec, list[Interval]] = {}
    tasks: dict[tuple[tf.DeviceSpec, str], list[Interval]] = {}
    worked: dict[tf.DeviceSpec, list[tuple[float, float, tuple[int, str] | None]]] = {}
    for entry in step_stats.dev_stats:
        for node in entry.node_stats:
            start_s = node.all_start_micros / 1e6
            if node.node_name != _TRANSFER:
                interval = (start_s + node.op_start_rel_micros / 1e6, start_s + node.op_end_rel_micros / 1e6)
                worked.setdefault(_spec(entry.device), []).append((*interval, source_of(node.node_name)))
                task = _TASK.search(node.node_name)
                if task and not _GIVEN.search(node.timeline_label):
                    tasks.setdefault((_spec(entry.device), task[1]), []).append(interval)
                continue
            endpoints = _ENDPOINTS.search(node.timeline_label)
            for end in endpoints.groups() if endpoints else ():
                transfers.setdefault(_spec(end), []).append((start_s, start_s + node.all_end_rel_micros / 1e6))
    computing = {spec: [(start_s, end_s) for start_s, end_s, _ in entries] for spec, entries in worked.items()}
    distinct = {device.tf_device: device for device in reversed(devices)}
    parts = [_part(distinct[name], computing, transfers, step_s) for name in dict.fromkeys(device.tf_device for device in devices)]
    everything = [interval for intervals in (*computing.values(), *transfers.values()) for interval in intervals]
    launch_s = collected_s = 0.0
    if began_s is not None and everything:
        launch_s = min(step_s, max(0.0, min(start_s for start_s, _ in everything) - began_s))
        collected_s = min(step_s - launch_s, max(0.0, began_s + step_s - max(end_s for _, end_s in everything)))
    return StepTrace(
        step_s,
        tuple(parts),
        _tasks(tasks, distinct.values(), _began_s(computing)),
        _layers(worked, distinct.values()),
        launch_s,
        collected_s,
    )


def _began_s(computing: dict[tf.DeviceSpec, list[Interval]]) -> float:
    """Return when the first operation began."""
    return min((start_s for intervals in computing.values() for start_s, _ in intervals), default=0.0)


def _layers(
    worked: dict[tf.DeviceSpec, list[tuple[float, float, tuple[int, str] | None]]], devices: Iterable[Device]
) -> tuple[LayerTrace, ...]:
    """Return the compute of each layer's passes on all devices; operations of no layer take their part of the time too."""
    traces = []
    for device in devices:
        intervals = [entry for spec, entries in worked.items() if _is(spec, _spec(device.tf_device)) for entry in entries]
        seconds = shared_out_s(intervals)
        traces += [LayerTrace(device.name, *source, seconds[source]) for source in sorted(filter(None, seconds))]
    return tuple(traces)


def _tasks(tasks: dict[tuple[tf.DeviceSpec, str], list[Interval]], devices: Iterable[Device], began_s: float) -> tuple[TaskTrace, ...]:
    """Return the tasks of all devices, by their beginnings."""
    traces = [
        TaskTrace(device.name, task, min(intervals)[0] - began_s, max(end_s for _, end_s in intervals) - began_s, covered_s(intervals))
        for device in devices
        for (spec, task), intervals in tasks.items()
        if _is(spec, _spec(device.tf_device))
    ]
    return tuple(sorted(traces, key=lambda entry: entry.start_s))


def covered_s(intervals: Iterable[Interval]) -> float:
    """Return the seconds that lie in at least one interval.

    Parameters
    ----------
    intervals : (start, end) of each, seconds.
    """
    total_s, reached_s = 0.0, -float("inf")
    for start_s, end_s in sorted(intervals):
        total_s += max(0.0, end_s - max(start_s, reached_s))
        reached_s = max(reached_s, end_s)
    return total_s


def _part(
    device: Device, computing: dict[tf.DeviceSpec, list[Interval]], transfers: dict[tf.DeviceSpec, list[Interval]], step_s: float
) -> DeviceTrace:
    own_spec = _spec(device.tf_device)
    worked = [interval for spec, intervals in computing.items() if _is(spec, own_spec) for interval in intervals]
    sent = [interval for spec, intervals in transfers.items() if _is(spec, own_spec) for interval in intervals]
    compute_s = covered_s(worked)
    communication_s = covered_s([*worked, *sent]) - compute_s
    overlapped_s = max(0.0, covered_s(sent) - communication_s)
    return DeviceTrace(device.name, compute_s, communication_s, max(0.0, step_s - compute_s - communication_s), overlapped_s)


def _spec(name: str) -> tf.DeviceSpec:
    return tf.DeviceSpec.from_string(name)


def _is(spec: tf.DeviceSpec, own_spec: tf.DeviceSpec) -> bool:
    """Return whether a device of a trace is the one wanted, which may be named without its job and task."""
    return spec.make_merged_spec(own_spec) == spec
