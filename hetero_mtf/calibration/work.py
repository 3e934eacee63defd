"""Work: loops on one device, and matrix products that occupy a device for a given time while something else is measured."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

SIDE = 128  # of the matrices it multiplies
_TIMED_S = 0.05


@dataclasses.dataclass
class Work:
    """A device's work: products of matrices in a loop.

    Parameters
    ----------
    device : TensorFlow device string.
    repeats : placeholder of the number of products.
    done : () tensor that, fetched, has multiplied so often.
    each_s : seconds of a product; 0 until it is timed.
    """

    device: str
    repeats: tf.Tensor
    done: tf.Tensor
    each_s: float = 0.0

    def after(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Return tensors that are on the device already, after the device has worked; the work begins when they exist.

        Parameters
        ----------
        tensors : tensors on the device.
        """
        with tf.device(self.device):
            with tf.control_dependencies(list(tensors)):
                done = _loop(self.device, self.repeats)
            with tf.control_dependencies([done]):
                return [tf.identity(tensor) for tensor in tensors]

    def count(self, session: Any, seconds: float) -> int:
        """Return the number of products that takes so many seconds, at least 1; times them the first time.

        Parameters
        ----------
        session : open session of the graph.
        seconds : how long the work is to take.
        """
        if not self.each_s:
            self.each_s = self._timed(session)
        return max(1, round(seconds / self.each_s))

    def _timed(self, session: Any) -> float:
        count, spent_s = 1, 0.0
        while spent_s < _TIMED_S:
            count *= 4
            start_s = time.perf_counter()
            session.run(self.done, {self.repeats: count})
            spent_s = time.perf_counter() - start_s
        return spent_s / count


def work_on(device: str) -> Work:
    """Return work for a device, added to the current TensorFlow graph.

    Parameters
    ----------
    device : TensorFlow device string.
    """
    repeats = tf.compat.v1.placeholder(tf.int32, ())
    return Work(device, repeats, _loop(device, repeats))


def _loop(device: str, repeats: tf.Tensor) -> tf.Tensor:
    """Return the number of products computed, after the last one."""

    def body(count: tf.Tensor, matrix: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.device(device):
            return count + 1, tf.matmul(matrix, matrix)

    with tf.device(device):
        # its product with itself is itself, exactly, as SIDE is a power of two: nothing grows or vanishes
        matrix = tf.fill([SIDE, SIDE], 1.0 / SIDE)
    return repeated_on(device, repeats, body, [matrix])


def repeated_on(device: str, repeats: tf.Tensor, body: Callable[..., Any], state: Sequence[tf.Tensor] = ()) -> tf.Tensor:
    """Return a () tensor, the number of repetitions, that exists after `body` has run so often, one after another.

    Parameters
    ----------
    device : TensorFlow device string of the loop.
    repeats : () number of repetitions.
    body : (count, *state) -> (count + 1, *state), with operations of the device.
    state : tensors before the first repetition.
    """

    def more(count: tf.Tensor, *rest: tf.Tensor) -> tf.Tensor:
        with tf.device(device):
            return count < limit

    with tf.device(device):
        limit = tf.identity(repeats)  # a loop that reads a tensor of another device waits for it at every repetition
        return tf.while_loop(more, body, [tf.constant(0), *state], parallel_iterations=1)[0]
