"""Calls: what a training step costs besides its layers and links - the call of the session and the feeding of the batch."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from hetero_mtf.calibration.windows import Windows
from hetero_mtf.calibration.work import Work, work_on

WORK_S = 0.01
CALLS = 4
FED_BYTES = 2**20


@dataclasses.dataclass(frozen=True)
class CallCost:
    """Seconds of a step besides its layers and links.

    Parameters
    ----------
    launch_s : seconds of a session call on all devices.
    feed_s_per_byte : seconds for each byte of the batch, which is handed to all devices.
    """

    launch_s: float
    feed_s_per_byte: float


@dataclasses.dataclass(frozen=True)
class _Steps:
    """Steps on all devices.

    Parameters
    ----------
    plain : what a step without a batch fetches.
    fed : what a step fetches that hands every device a batch.
    batch : placeholder of the batch.
    work : (devices,) how long each computes.
    """

    plain: list[tf.Tensor]
    fed: list[tf.Tensor]
    batch: tf.Tensor
    work: tuple[Work, ...]


def measure_calls(cluster: Any, devices: Sequence[int], windows: Windows) -> CallCost:
    """Return what the call of a step costs, and the feeding of its batch.

    Parameters
    ----------
    cluster : live cluster.
    devices : indices of the devices, one of each TensorFlow device.
    windows : how to measure.

    Notes
    -----
    All devices compute in every step, as they do in training. A call costs what `CALLS` steps take longer than one of as much
    work; a byte costs what steps with a batch of `FED_BYTES` take longer than steps without. Both are differences of times measured
    side by side, and never below 0.
    """
    graph = tf.Graph()
    with graph.as_default():
        steps = _steps([cluster.devices[index].tf_device for index in devices])
    with cluster.session(graph) as session:
        counts = {work.repeats: work.count(session, WORK_S) for work in steps.work}
        once = {repeats: CALLS * count for repeats, count in counts.items()}
        fed = {**counts, steps.batch: np.zeros(FED_BYTES // 4, np.float32)}
        runs = {
            "one": functools.partial(_run, session, steps.plain, once, 1),
            "several": functools.partial(_run, session, steps.plain, counts, CALLS),
            "fed": functools.partial(_run, session, steps.fed, fed, CALLS),
        }
        times = windows.times(runs)
    launch_s = float(np.median(times["several"] - times["one"])) / (CALLS - 1)
    fed_s = float(np.median(times["fed"] - times["several"])) / CALLS
    return CallCost(max(0.0, launch_s), max(0.0, fed_s) / FED_BYTES)


def _run(session: Any, fetches: list[tf.Tensor], feed: Mapping[Any, Any], calls: int, count: int) -> None:
    for _ in range(calls * count):
        session.run(fetches, feed)


def _steps(devices: Sequence[str]) -> _Steps:
    work = tuple(work_on(device) for device in devices)
    batch = tf.compat.v1.placeholder(tf.float32, (FED_BYTES // 4,))
    return _Steps([each.done for each in work], [_fed(each, batch) for each in work], batch, work)


def _fed(work: Work, batch: tf.Tensor) -> tf.Tensor:
    """Return a number that is there when the device has received the batch and worked."""
    with tf.device(work.device):
        received = tf.reduce_max(batch)
    return work.after([received])[0]
