"""Links: latency and bandwidth between two devices, measured by sending tensors there and back."""

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
    """A tensor handed to and fro; fetched, it has made `HOPS` hops."""

    small: tf.Operation
    large: tf.Operation
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
    A float32 tensor is kept on the first device and handed over `HOPS` times; a hop of n bytes takes
    latency + n / bandwidth, so two sizes tell both. The devices are otherwise idle: what a busy
    receiver costs on top is not in it.
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


def _repeat(session: Any, operation: Any, count: int) -> None:
    for _ in range(count):
        session.run(operation)


def _chain(first: Device, second: Device, container: str) -> _Chain:
    setup, ends = [], []
    for elements in (SMALL_ELEMENTS, LARGE_ELEMENTS):
        with tf.device(first.tf_device):
            handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[elements], shared_name=f"hop{elements}", container=container)
            setup.append(tf.raw_ops.AssignVariableOp(resource=handle, value=tf.ones([elements])))
            tensor = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
        for hop in range(HOPS):
            with tf.device((second if hop % 2 == 0 else first).tf_device):
                tensor = tf.identity(tensor)
        ends.append(tensor.op)
    return _Chain(ends[0], ends[1], setup)
