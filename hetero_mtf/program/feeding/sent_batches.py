"""Batches that are sent to servers elsewhere, each device's part to its own server."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from hetero_mtf.errors import HeteroError
from hetero_mtf.program.feeding.inputs import host_of, placeholder
from hetero_mtf.program.feeding.staged_batches import SLOTS, StagedBatches
from hetero_mtf.runtime.cluster import Cluster
from hetero_mtf.runtime.shared.batch_memory import Form


class _SentPart(NamedTuple):
    """A part of an array that a server holds in a variable for each slot.

    Parameters
    ----------
    number : index of the array.
    cut : which part.
    extents, dtype : shape and dtype of the part, as it is sent.
    names : (slots,) shared names of the variables.
    """

    number: int
    cut: tuple[slice, ...]
    extents: tuple[int, ...]
    dtype: tf.DType
    names: tuple[str, ...]


class SentBatches(StagedBatches):
    """Batches whose parts are sent into variables of the servers that read them; parameters as for `StagedBatches`.

    Parameters
    ----------
    cluster : live cluster of servers.
    """

    def __init__(self, cluster: Cluster, container: str, forms: Sequence[Form | None], dtypes: Sequence[tf.DType]) -> None:
        self._cluster, self._forms, self._name = cluster, [form for form in forms if form is not None], uuid.uuid4().hex
        self._sent: dict[int, list[_SentPart]] = {}
        self._slots: dict[str, tf.Tensor] = {}  # placeholder of the slot that is read, by host
        self._senders: dict[int, _Sender] = {}
        super().__init__(container, forms, dtypes)

    def _part(self, number: int, device: str, begins: Sequence[int], extents: Sequence[int], dtype: tf.DType) -> tf.Tensor:
        own, host = tf.as_dtype(self._forms[number][1]), host_of(device)
        names = tuple(f"{self._name}/{len(self._parts)}/{slot}" for slot in range(SLOTS))
        cut = tuple(slice(begin, begin + extent) for begin, extent in zip(begins, extents))
        task = int(tf.DeviceSpec.from_string(device).task or 0)
        self._sent.setdefault(task, []).append(_SentPart(number, cut, tuple(extents), own, names))
        with tf.device(host):
            if host not in self._slots:
                self._slots[host] = placeholder(tf.int32, ())
            reads = [_reader(_handle(name, own, extents, self._container), own) for name in names]
            part = tf.switch_case(self._slots[host], reads)
        return tf.cast(part, dtype) if own != dtype else tf.identity(part)

    def _write(self, slot: int, arrays: Sequence[np.ndarray]) -> None:
        for task, parts in self._sent.items():
            if task not in self._senders:
                self._senders[task] = _Sender(self._cluster, task, parts, self._container)
        sending = [_Sending(sender, slot, arrays) for sender in self._senders.values()]
        for each in sending:
            each.end()

    def _select(self, slot: int) -> dict[tf.Tensor, Any]:
        return dict.fromkeys(self._slots.values(), slot)

    def close(self) -> None:
        senders, self._senders = self._senders, {}
        for sender in senders.values():
            sender.close()


def _handle(name: str, dtype: tf.DType, extents: Sequence[int], container: str) -> tf.Tensor:
    return tf.raw_ops.VarHandleOp(dtype=dtype, shape=list(extents), container=container, shared_name=name)


def _reader(handle: tf.Tensor, dtype: tf.DType) -> Any:
    return lambda: tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)


class _Sender:
    """A session with one server, which fills the variables there.

    Parameters
    ----------
    cluster, task : the server.
    parts : what it holds.
    container : of the variables.
    """

    def __init__(self, cluster: Cluster, task: int, parts: Sequence[_SentPart], container: str) -> None:
        self._parts, graph = parts, tf.Graph()
        with graph.as_default(), tf.device(f"/job:worker/task:{task}/device:CPU:0"):
            self._values = [placeholder(part.dtype, part.extents) for part in parts]
            handles = [[_handle(part.names[slot], part.dtype, part.extents, container) for part in parts] for slot in range(SLOTS)]
            self._fills = [
                [tf.raw_ops.AssignVariableOp(resource=handle, value=value) for handle, value in zip(of_slot, self._values)]
                for of_slot in handles
            ]
            every = [handle for of_slot in handles for handle in of_slot]
            self._drops = [tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=True) for handle in every]
        self._session = cluster.worker_session(graph, task)

    def send(self, slot: int, arrays: Sequence[np.ndarray]) -> None:
        """Fill the variables of a slot."""
        self._session.run(self._fills[slot], {value: arrays[part.number][part.cut] for value, part in zip(self._values, self._parts)})

    def close(self) -> None:
        """Free the variables."""
        with contextlib.suppress(HeteroError, tf.errors.OpError, RuntimeError):
            self._session.run(self._drops)
        self._session.close()


class _Sending:
    """Sends to one server on a thread.

    Parameters
    ----------
    sender : the server's.
    slot, arrays : as for `_Sender.send`.
    """

    def __init__(self, sender: _Sender, slot: int, arrays: Sequence[np.ndarray]) -> None:
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._work, args=(sender, slot, arrays), name="hetero_mtf sending", daemon=True)
        self._thread.start()

    def _work(self, sender: _Sender, slot: int, arrays: Sequence[np.ndarray]) -> None:
        try:
            sender.send(slot, arrays)
        except BaseException as fault:  # noqa: BLE001 - raised where its end is awaited
            self._fault = fault

    def end(self) -> None:
        """Return when all is sent; raise what sending raised."""
        self._thread.join()
        if self._fault is not None:
            raise self._fault
