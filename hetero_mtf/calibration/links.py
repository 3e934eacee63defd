"""Links: latency and bandwidth between two devices, measured by swapping tensors, as collectives do."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import tensorflow as tf

from hetero_mtf.calibration.windows import Windows
from hetero_mtf.devices.records import Device, Link

SMALL_ELEMENTS = 16
LARGE_ELEMENTS = 2**20
HOPS = 8


@dataclasses.dataclass(frozen=True)
class _Chain:
    """Two tensors that swap places; fetched, each has made `HOPS` hops."""

    small: list[tf.Operation]
    large: list[tf.Operation]
    setup: list[tf.Operation]


def measure_link(cluster: Any, first: int, second: int, windows: Windows) -> tuple[Link, Link]:
    """Return the links between two devices, both ways alike.

    Parameters
    ----------
    cluster : live cluster.
    first, second : indices of devices with different TensorFlow devices.
    windows : how to measure.

    Notes
    -----
    Each device keeps a float32 tensor, and the two are swapped `HOPS` times; a hop of n bytes takes
    latency + n / bandwidth, so two sizes tell both. Both devices send and receive at once, as in
    every round of a collective; they do not compute meanwhile, and no third one sends.
    """
    container = cluster.container("links")
    graph = tf.Graph()
    try:
        with graph.as_default():
            chain = _chain(cluster.devices[first], cluster.devices[second], container.name)
        with cluster.session(graph) as session:
            session.run(chain.setup)
            runs = {name: functools.partial(_repeat, session, getattr(chain, name)) for name in ("small", "large")}
            small, large = (found.seconds / HOPS for found in windows.measure(runs).values())
    finally:
        container.release()
    nbytes = (LARGE_ELEMENTS - SMALL_ELEMENTS) * 4
    bandwidth = nbytes / max(large - small, 1e-9)
    return Link(first, second, small, bandwidth), Link(second, first, small, bandwidth)


def _repeat(session: Any, operations: list[tf.Operation], count: int) -> None:
    for _ in range(count):
        session.run(operations)


def _chain(first: Device, second: Device, container: str) -> _Chain:
    setup, ends = [], []
    devices = (first.tf_device, second.tf_device)
    for elements in (SMALL_ELEMENTS, LARGE_ELEMENTS):
        held = []
        for place, device in enumerate(devices):
            with tf.device(device):
                name = f"hop{elements}_{place}"
                handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[elements], shared_name=name, container=container)
                setup.append(tf.raw_ops.AssignVariableOp(resource=handle, value=tf.ones([elements])))
                held.append(tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32))
        for _ in range(HOPS):
            held = [_copied(device, tensor) for device, tensor in zip(devices, reversed(held))]
        ends.append([tensor.op for tensor in held])
    return _Chain(ends[0], ends[1], setup)


def _copied(device: str, tensor: tf.Tensor) -> tf.Tensor:
    with tf.device(device):
        return tf.identity(tensor)
