"""How fast this program sends batches to the workers of other hosts: to each alone, and to all at once."""

from __future__ import annotations

import concurrent.futures
import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from hetero_mtf.planning.profile.feed_link import FeedLink

FIRST_BYTES, MOST_BYTES = 2**16, 2**24
LONG_S = 0.05  # a transfer that takes so long is not lengthened
REPEATS = 3


def measure_feed_links(cluster: Any, devices: Sequence[int]) -> tuple[FeedLink, ...]:
    """Return the links from this program to the devices of a cluster; none where it shares memory with them.

    Parameters
    ----------
    cluster : live cluster.
    devices : indices of the devices, one of each TensorFlow device.

    Notes
    -----
    To each worker an array is sent as a batch is, four times as large each time until it takes `LONG_S` seconds; the median of
    `REPEATS` counts. Then the workers get theirs at the same time: where the program's own link is the narrow one, that takes longer.
    """
    if getattr(cluster, "shares_memory", False) or not getattr(cluster, "target", ""):  # whose workers may still start: not asked first
        return ()
    tasks = {index: _task(cluster.devices[index].tf_device) for index in devices}
    senders = {task: _Sender(cluster, task) for task in dict.fromkeys(tasks.values())}
    try:
        alone = {task: sender.speed() for task, sender in senders.items()}
        together = _together(list(senders.values())) if len(senders) > 1 else max(alone.values())
    finally:
        for sender in senders.values():
            sender.close()
    return tuple(FeedLink(index, alone[task], together) for index, task in tasks.items())


def _task(tf_device: str) -> int:
    return int(tf.DeviceSpec.from_string(tf_device).task or 0)


def _together(senders: Sequence[_Sender]) -> float:
    """Return the bytes a second to all workers at once."""
    took_s = []
    with concurrent.futures.ThreadPoolExecutor(len(senders)) as pool:
        for _ in range(REPEATS):
            begun_s = time.perf_counter()
            list(pool.map(_Sender.send, senders))
            took_s.append(time.perf_counter() - begun_s)
    return sum(sender.sent_bytes for sender in senders) / statistics.median(took_s)


class _Sender:
    """A session with one worker, which holds what it is sent as it holds a batch.

    Parameters
    ----------
    cluster : live cluster.
    task : number of the worker.
    """

    def __init__(self, cluster: Any, task: int) -> None:
        graph = tf.Graph()
        self._array = np.zeros(FIRST_BYTES // 4, np.float32)
        self._container = cluster.container("calibration")
        with graph.as_default(), tf.device(f"/job:worker/task:{task}/device:CPU:0"):
            self._value = tf.compat.v1.placeholder(tf.float32, (None,))
            handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[None], container=self._container.name, shared_name=f"fed{task}")
            self._fill = tf.raw_ops.AssignVariableOp(resource=handle, value=self._value)
        self._session = cluster.worker_session(graph, task)

    @property
    def sent_bytes(self) -> int:
        """Bytes of what is sent."""
        return int(self._array.nbytes)

    def send(self) -> float:
        """Send the array, and return the seconds until the worker holds it."""
        begun_s = time.perf_counter()
        self._session.run(self._fill, {self._value: self._array})
        return time.perf_counter() - begun_s

    def speed(self) -> float:
        """Return the bytes a second, with an array that is long enough to tell."""
        self.send()  # the first one opens the connection
        while self.send() < LONG_S and self.sent_bytes < MOST_BYTES:
            self._array = np.zeros(4 * len(self._array), np.float32)
        return self.sent_bytes / statistics.median(self.send() for _ in range(REPEATS))

    def close(self) -> None:
        """Free what the worker holds."""
        self._session.close()
        self._container.release()
