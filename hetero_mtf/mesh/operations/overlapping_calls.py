"""CallOrder: two session calls overlap, and on each device the operations of the second one wait for those of the first.

Call n takes a token from one of two queues of a device and, when its work there is done, puts one into the other queue, from which
call n + 1 takes it. So a call can be launched, and fed, while the one before it is still running.
"""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf


class CallOrder:
    """The queues of the devices of one trainer.

    Parameters
    ----------
    container : resource container on every server.
    """

    def __init__(self, container: str) -> None:
        self._container, self._generation = container, 0
        self._begun: set[str] = set()

    def take(self, device: str, is_odd: tf.Tensor) -> tf.Tensor:
        """Return a tensor that exists once the call before has done its work on a device.

        Parameters
        ----------
        device : TensorFlow device string.
        is_odd : () bool, whether the number of the call is odd.
        """
        with tf.device(_host(device)):
            return tf.cond(is_odd, lambda: self._dequeued(device, 1), lambda: self._dequeued(device, 0))

    def give(self, device: str, is_odd: tf.Tensor, after: Iterable[tf.Operation]) -> tf.Operation:
        """Return the operation that lets the next call begin on a device.

        Parameters
        ----------
        device, is_odd : as for `take`.
        after : all operations of the call on the device that change what the next one reads.
        """
        with tf.device(_host(device)), tf.control_dependencies(list(after)):
            return tf.cond(is_odd, lambda: self._enqueued(device, 0), lambda: self._enqueued(device, 1)).op

    def begin(self, devices: Iterable[str]) -> list[tf.Operation]:
        """Return operations, in the present TensorFlow graph, that let call 0 begin on devices where none has.

        Parameters
        ----------
        devices : TensorFlow device strings.
        """
        fresh = [device for device in dict.fromkeys(devices) if device not in self._begun]
        self._begun.update(fresh)
        operations = []
        for device in fresh:
            with tf.device(_host(device)):
                operations.append(self._enqueued(device, 0).op)
        return operations

    def cancel(self, devices: Iterable[str]) -> list[tf.Operation]:
        """Return operations that make calls fail which wait for one that failed.

        Parameters
        ----------
        devices : TensorFlow device strings.
        """
        operations = []
        for device in dict.fromkeys(devices):
            with tf.device(_host(device)):
                queues = [self._queue(device, number) for number in (0, 1)]
                operations += [tf.raw_ops.QueueCloseV2(handle=queue, cancel_pending_enqueues=True) for queue in queues]
        return operations

    def forget(self) -> None:
        """Begin again with other queues, from call 0; programs that were built before must not be run again."""
        self._generation += 1
        self._begun.clear()

    def _queue(self, device: str, number: int) -> tf.Tensor:
        name = f"call/{self._generation}/{device}/{number}"
        return tf.raw_ops.FIFOQueueV2(component_types=[tf.bool], shapes=[()], capacity=2, container=self._container, shared_name=name)

    def _dequeued(self, device: str, number: int) -> tf.Tensor:
        return tf.raw_ops.QueueDequeueV2(handle=self._queue(device, number), component_types=[tf.bool])[0]

    def _enqueued(self, device: str, number: int) -> tf.Tensor:
        with tf.control_dependencies([tf.raw_ops.QueueEnqueueV2(handle=self._queue(device, number), components=[tf.constant(True)])]):
            return tf.constant(True)


def _host(device: str) -> str:
    return str(tf.DeviceSpec.from_string(device).replace(device_type="CPU", device_index=0).to_string())
