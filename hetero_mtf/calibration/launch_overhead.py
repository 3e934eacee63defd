"""Launch overhead: the seconds of a training step besides its layers and links, for the session call and the batch.

One step of work w takes t(w) = launch + w seconds, a step that is fed n bytes takes feed * n seconds more. Of k steps in a row,

    launch = (t of k steps of w - t of one step of k w) / (k - 1)
    feed   = (t of k steps fed n bytes - t of k steps) / (k n)

Where a batch is written for its devices while the step before runs, feed is what reading it takes.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from hetero_mtf.calibration.windows import Windows, repeated_run
from hetero_mtf.calibration.work import Work, work_on
from hetero_mtf.program.batch_arrays import BatchArrays
from hetero_mtf.program.feeding.feed_choice import staged_batches
from hetero_mtf.program.feeding.staged_batches import StagedBatches

WORK_S = 0.01
STEPS = 4
FED_BYTES = 2**20


@dataclasses.dataclass(frozen=True)
class LaunchOverhead:
    """Seconds of a step besides its layers and links.

    Parameters
    ----------
    launch_s : seconds of launching a step, one session call, on all devices.
    feed_s_per_byte : seconds for each byte of the batch, which is fed to all devices.
    """

    launch_s: float
    feed_s_per_byte: float


@dataclasses.dataclass(frozen=True)
class _Steps:
    """Steps on all devices.

    Parameters
    ----------
    plain : what a step without a batch fetches.
    fed : what a step fetches of which every device gets a batch.
    batch : placeholder of the batch; None where devices read it.
    work : (devices,) how long each computes.
    """

    plain: list[tf.Tensor]
    fed: list[tf.Tensor]
    batch: tf.Tensor | None
    work: tuple[Work, ...]


def measure_launch_overhead(cluster: Any, devices: Sequence[int], windows: Windows) -> LaunchOverhead:
    """Return the launch overhead of a step and the seconds of feeding its batch.

    Parameters
    ----------
    cluster : live cluster.
    devices : indices of the devices, one of each TensorFlow device.

    Notes
    -----
    All devices compute in every step, as they do in training. k is `STEPS`, n is `FED_BYTES`. Both values are differences of times
    measured side by side, and never below 0.
    """
    graph, container = tf.Graph(), cluster.container("calibration")
    form = (FED_BYTES // 4,), "float32"
    staged, array = staged_batches(cluster, container.name, [form], [tf.float32]), np.zeros(FED_BYTES // 4, np.float32)
    with graph.as_default():
        steps = _steps([cluster.devices[index].tf_device for index in devices], staged)
    with contextlib.closing(staged) if staged is not None else contextlib.nullcontext(), cluster.session(graph) as session:
        batch = {steps.batch: array} if staged is None else staged.use(BatchArrays((array,), (), (), ()), [array])
        counts = {work.repeats: work.count(session, WORK_S) for work in steps.work}
        once = {repeats: STEPS * count for repeats, count in counts.items()}
        fed = {**counts, **batch}
        runs = {
            "one": repeated_run(session, steps.plain, once),
            "several": repeated_run(session, steps.plain, counts, STEPS),
            "fed": repeated_run(session, steps.fed, fed, STEPS),
        }
        times = windows.times(runs)
    container.release()
    launch_s = float(np.median(times["several"] - times["one"])) / (STEPS - 1)
    fed_s = float(np.median(times["fed"] - times["several"])) / STEPS
    return LaunchOverhead(max(0.0, launch_s), max(0.0, fed_s) / FED_BYTES)


def _steps(devices: Sequence[str], staged: StagedBatches | None) -> _Steps:
    work = tuple(work_on(device) for device in devices)
    array = None if staged is None else staged.arrays[0]
    if array is not None:
        read = array.read
        return _Steps([each.done for each in work], [_fed(each, read(each.device, [0], [FED_BYTES // 4])) for each in work], None, work)
    batch = tf.compat.v1.placeholder(tf.float32, (FED_BYTES // 4,))
    return _Steps([each.done for each in work], [_fed(each, batch) for each in work], batch, work)


def _fed(work: Work, batch: tf.Tensor) -> tf.Tensor:
    """Return a number that exists after the device has received the batch and worked."""
    with tf.device(work.device):
        received = tf.reduce_max(batch)
    return work.after([received])[0]
