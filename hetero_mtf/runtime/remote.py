"""Servers started elsewhere: reaching them, listing their devices, noticing when one is gone."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hetero_mtf.devices.addresses import Addresses
from hetero_mtf.devices.environment import bypass_proxy
from hetero_mtf.devices.host import available_bytes, cpu_cores, cpu_model
from hetero_mtf.devices.records import ClusterRecord, Device, MemoryPool
from hetero_mtf.errors import ClusterError, WorkerError
from hetero_mtf.runtime.faults import explain
from hetero_mtf.runtime.liveness.heartbeat import LOOK_AT_BOTH, WORKER_TIMEOUT_S, Heartbeat, silence
from hetero_mtf.runtime.liveness.lease import Leases
from hetero_mtf.runtime.liveness.peers import cut_between, cut_pairs
from hetero_mtf.runtime.reaching import await_reachable

if TYPE_CHECKING:
    import tensorflow as tf

REACH_LIMIT_S = 30.0
PEER_ANSWER_S = 6.5  # longer than for a server's own answer: workers send tensors to each other, on links that may be full


class Remote:
    """A cluster of servers that `hetero-mtf worker` runs on one or more machines; this process is their client, and the only one.

    Parameters
    ----------
    addresses : where the servers listen.
    reach_limit_s : seconds to wait for servers that are still starting, None for half a minute.
    worker_timeout_s : seconds without an answer after which a server is a fault.
    spare : servers that need not be there, the last ones first; those that are not are left out.

    Attributes
    ----------
    record : the devices of the servers that have been in use so far.
    left_out : numbers of the servers that are not in use.

    Raises
    ------
    ClusterError
        If a server cannot be reached, naming all that cannot, another program uses one, or they were started with different lists.
    """

    def __init__(
        self, addresses: Addresses, reach_limit_s: float | None = None, worker_timeout_s: float = WORKER_TIMEOUT_S, spare: int = 0
    ) -> None:
        self.hosts = addresses.hosts
        self._heartbeat = Heartbeat(self.hosts, worker_timeout_s)
        self._limit_s = worker_timeout_s
        self._cut: WorkerError | None = None
        weakref.finalize(self, self._heartbeat.close)
        self._closed = False
        bypass_proxy(self.hosts)
        end_s = time.monotonic() + (REACH_LIMIT_S if reach_limit_s is None else reach_limit_s)
        self.left_out = await_reachable(addresses, end_s, spare)
        self._leases = Leases(self.hosts, end_s, addresses.complete, self.left_out)
        self._leases.watch(worker_timeout_s)
        weakref.finalize(self, self._leases.abandon)
        try:
            self.record = self._listed(self._used(range(len(self.hosts))))
        except BaseException:
            self.close()
            raise

    @property
    def target(self) -> str:
        """The server that sessions talk to: the first in use."""
        return f"grpc://{next(host for index, host in enumerate(self.hosts) if index not in self.left_out)}"

    def fault(self, wait_s: float = 0.0) -> WorkerError | None:
        """Return which server no longer answers, or None.

        Parameters
        ----------
        wait_s : seconds to wait for answers, when it is known that something must be wrong.
        """
        if self._closed:
            return WorkerError("the connection to the cluster is closed", "open the cluster again")
        if wait_s > 0:
            self._heartbeat.ask(wait_s)
        silent = self._heartbeat.look()
        gone = self._used([*self._heartbeat.refusing(), *self._leases.lost()])
        if gone:
            reason = f"the server on {', '.join(map(self.hosts.__getitem__, gone))} no longer answers"
            return WorkerError(reason, "start it again with hetero-mtf worker", [(index,) for index in gone])
        cut_off = self._used(self._leases.cut_off())
        if cut_off:
            reason = f"nothing came back from the worker on {', '.join(map(self.hosts.__getitem__, cut_off))}, and the connection broke"
            return WorkerError(reason, LOOK_AT_BOTH, [(index,) for index in cut_off])
        return self._silence(silent) or self._cut_between(self._limit_s)

    def leave_out(self, workers: Collection[int]) -> None:
        """Let the loss of these workers, and of no others, be no fault, as `Cluster.leave_out`; those that were not there are described."""
        known = {device.worker for device in self.record.devices}
        fresh = [index for index in range(len(self.hosts)) if index not in known and index not in workers]
        self.record = self.record.joined(self._listed(fresh)) if fresh else self.record
        self.left_out, self._cut = frozenset(workers), None

    def returned(self) -> tuple[int, ...]:
        """Return the workers that are left out and can be used again, as `Cluster.returned`; their leases are taken again."""
        self._heartbeat.look()
        answering = set(self._heartbeat.answering())
        reached = {index for index in self.left_out & answering if self._reaches_others(index)}
        return tuple(index for index in sorted(reached) if self._leases.take_again(index))

    def _reaches_others(self, index: int) -> bool:
        """Return whether no worker in use tells that it does not reach this one."""
        used = set(range(len(self.hosts))) - self.left_out
        return not any(index in pair and used.intersection(pair) for pair in self._leases.silent())

    def unresponsive(self, limit_s: float) -> WorkerError | None:
        """Return which servers have left a question unanswered for `limit_s` seconds, as `Cluster.unresponsive`."""
        return self._silence(self._heartbeat.unanswered(limit_s)) or self._cut_between(max(limit_s, PEER_ANSWER_S), unanswered=True)

    def close(self, freed: bool = True) -> None:
        """Leave the servers, which go on. Closing twice is harmless.

        Parameters
        ----------
        freed : whether all sessions are closed and all variables freed; else the workers start again, which frees them.
        """
        self._closed = True
        if freed:
            self._leases.release()
        self._leases.abandon()
        self._heartbeat.close()

    def _listed(self, workers: Sequence[int]) -> ClusterRecord:
        """Return the devices of some workers that answer."""
        return _list_devices({index: self.hosts[index] for index in workers}, self.fault)

    def _silence(self, silent: Mapping[int, float]) -> WorkerError | None:
        connecting = self._heartbeat.connecting()
        used = self._used(silent)
        return silence({index: (f"the worker on {self.hosts[index]}", silent[index], index in connecting) for index in used})

    def _used(self, workers: Iterable[int]) -> list[int]:
        """Return those of some workers that are in use, each once, in order."""
        return sorted(set(workers) - self.left_out)

    def _cut_between(self, limit_s: float, unanswered: bool = False) -> WorkerError | None:
        """Return which workers do not reach each other although both answer here, or None.

        Once it is said it stays: a step that waited for a tensor then does not end when the link is back.

        Parameters
        ----------
        limit_s : seconds without an answer that are too long.
        unanswered : whether they count from the open question instead of from the last answer.
        """
        silent = self._leases.silent()
        late_s = {pair: each.unanswered_s if unanswered else each.silent_s for pair, each in silent.items()}
        pairs = cut_pairs(late_s, self._heartbeat.since_answers_s(), limit_s, self._heartbeat.interval_s)
        used = {pair: silent[pair].silent_s for pair in pairs if not self.left_out.intersection(pair)}
        self._cut = self._cut or cut_between(used, self.hosts)
        return self._cut


def _list_devices(hosts: Mapping[int, str], fault: Callable[[], WorkerError | None]) -> ClusterRecord:
    """Return the devices of servers by their numbers."""
    import tensorflow as tf  # takes seconds: servers that cannot be reached are refused before

    from hetero_mtf.runtime.session import WatchedSession, session_config  # imports TensorFlow

    config = session_config(list(hosts))
    config.operation_timeout_in_ms = int(REACH_LIMIT_S * 1000)
    graph, texts = _probe(hosts)
    session = WatchedSession(f"grpc://{next(iter(hosts.values()))}", graph, config, fault)
    try:
        listed = session.list_devices()
        read = [tuple(text.decode(errors="replace") for text in pair) for pair in session.run(texts)]
    except tf.errors.OpError as error:
        raise ClusterError(f"the servers do not form one cluster ({explain(error)})", "start all with the same list of hosts") from error
    finally:
        session.close()
    return _describe(hosts, listed, read)


def _probe(tasks: Iterable[int]) -> tuple[tf.Graph, list[tuple[tf.Tensor, tf.Tensor]]]:
    import tensorflow as tf

    graph, texts = tf.Graph(), []
    with graph.as_default():
        for task in tasks:
            with tf.device(f"/job:worker/task:{task}/device:CPU:0"):
                texts.append((tf.io.read_file("/proc/meminfo"), tf.io.read_file("/proc/cpuinfo")))
    return graph, texts


def _describe(hosts: Mapping[int, str], listed: Sequence[Any], read: Sequence[Sequence[str]]) -> ClusterRecord:
    devices: list[Device] = []
    pools: dict[str, MemoryPool] = {}
    for (task, host), (meminfo, cpuinfo) in zip(hosts.items(), read):
        machine = host.rpartition(":")[0]
        own = [entry for entry in listed if f"/task:{task}/" in entry.name and entry.device_type in ("CPU", "GPU")]
        several = len(own) > 1
        for entry in sorted(own, key=lambda entry: (entry.device_type != "GPU", entry.name)):
            gpu = entry.device_type == "GPU"
            place = entry.name.rpartition("/device:")[2]
            name = f"worker:{task}/{place.lower()}" if several else f"worker:{task}"
            pool = name if gpu else machine
            memory_bytes = entry.memory_limit_bytes if gpu else available_bytes(meminfo) or entry.memory_limit_bytes
            pools[pool] = MemoryPool(pool, min(memory_bytes, pools[pool].free_bytes) if pool in pools else memory_bytes)
            tf_device, model = f"/job:worker/task:{task}/device:{place}", "" if gpu else cpu_model(cpuinfo)
            cores = 0 if gpu else cpu_cores(cpuinfo)
            devices.append(Device(name, entry.device_type, machine, tf_device, memory_bytes, pool, 1.0, model, cores))
    return ClusterRecord(tuple(devices), tuple(pools.values()))
