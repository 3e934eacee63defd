"""WorkersInUse: the workers of a cluster that are used, the sessions on them, and what these leave there."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from hetero_mtf.errors import ClusterError, WorkerError
from hetero_mtf.runtime.container import Container
from hetero_mtf.runtime.freeing import free_containers
from hetero_mtf.runtime.remote import Remote

if TYPE_CHECKING:  # which is imported where a session is opened
    import tensorflow as tf

    from hetero_mtf.devices.records import ClusterRecord
    from hetero_mtf.runtime.backend import Backend
    from hetero_mtf.runtime.session import OpenSessions


class WorkersInUse:
    """Opens sessions on the workers of a backend that are not left out.

    Parameters
    ----------
    backend : has the workers.

    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._part: ClusterRecord | None = None
        self._sessions: OpenSessions | None = None
        self._containers: set[str] = set()
        self._left_behind: dict[int, set[str]] = {}  # containers that were released while a worker was left out
        self._lock = threading.RLock()  # for calibration, which works in several threads; a collected session closes in any of them
        self._closed = False

    def leave_out(self, workers: Collection[int]) -> None:
        """Use all workers but these, as `Cluster.leave_out`.

        Raises
        ------
        ClusterError
            If there is no such worker, or none would be left.
        """
        known = set(range(len(self._backend.hosts)))
        if not known:
            raise ClusterError("the devices of this process have no workers that could be left out", "use emulated or remote devices")
        if not known.issuperset(workers) or known == set(workers):
            named = ", ".join(map(str, sorted(workers)))
            raise ClusterError(f"workers {named} of {len(known)} cannot be left out", "name some of them, not all, from 0")
        back = self.left_out.difference(workers)
        self._part = None
        self._backend.leave_out(workers)
        for worker in back:
            names = self._left_behind.pop(worker, set())
            if names:
                self._free_on([worker], names)

    def session(self, graph: tf.Graph) -> tf.compat.v1.Session:
        """Return a session on all workers in use.

        Parameters
        ----------
        graph : its graph.
        """
        target = self._backend.target
        return self._watched(self._backend.hosts.index(target.removeprefix("grpc://")), graph, self._numbers)

    def session_with(self, graph: tf.Graph, worker: int) -> tf.compat.v1.Session:
        """Return a session with one worker alone.

        Parameters
        ----------
        graph : its graph.
        worker : number of a worker in use.

        Raises
        ------
        WorkerError
            If it is left out.
        """
        fault = self._left_out_of([worker])
        if fault is not None:
            raise fault
        return self._watched(worker, graph, [worker])

    def container(self, prefix: str) -> Container:
        """Return a container of a name of its own, which frees what is in it when it is released.

        Parameters
        ----------
        prefix : start of the name.
        """
        container = Container(prefix, self._release)
        self._containers.add(container.name)
        return container

    def close(self) -> bool:
        """Close the sessions, free what they left, and return whether nothing is left on the workers."""
        self._closed = True
        if self._sessions is not None:
            self._sessions.close()
        if isinstance(self._backend, Remote) and self._containers and self._backend.fault() is None:
            self._free([*self._containers])
        return not self._containers and self._backend.fault() is None

    @property
    def left_out(self) -> frozenset[int]:
        """The numbers of the workers that are left out."""
        return self._backend.left_out

    @property
    def record(self) -> ClusterRecord:
        """The devices of the workers in use."""
        whole = self._backend.record
        if not self.left_out:
            return whole
        if self._part is None:
            self._part = whole.part([at for at, device in enumerate(whole.devices) if device.worker not in self.left_out])
        return self._part

    @property
    def _numbers(self) -> list[int]:
        """The numbers of the workers in use."""
        return [worker for worker in range(len(self._backend.hosts)) if worker not in self.left_out]

    def _left_out_of(self, workers: Iterable[int]) -> WorkerError | None:
        """Return the error for those of some workers that are left out, or None."""
        lost = sorted(self.left_out.intersection(workers))
        named = ", ".join(f"worker {worker}" for worker in lost)
        remedy = "place nothing on their devices, in sessions that are opened afterwards"
        return WorkerError(f"{named} left out of the cluster", remedy, [(worker,) for worker in lost]) if lost else None

    def _watched(self, server: int, graph: tf.Graph, workers: Sequence[int]) -> tf.compat.v1.Session:
        """Return a session with the server of a worker, on the devices of some workers."""
        from hetero_mtf.runtime.session import OpenSessions, WatchedSession, session_config

        with self._lock:
            self._sessions = self._sessions or OpenSessions()
        fault = self._backend.fault
        session = WatchedSession(
            f"grpc://{self._backend.hosts[server]}",
            graph,
            session_config(workers),
            lambda: fault() or self._left_out_of(workers),
            lambda: fault() or self._left_out_of([server]),
        )
        self._sessions.add(session)
        return session

    def _release(self, name: str) -> None:
        if self._sessions is not None and not self._closed:  # without a session nothing is on the servers
            self._free([name])

    def _free(self, names: Sequence[str]) -> None:
        """Free containers; those that a worker in use keeps stay noted."""
        for worker in self.left_out:
            self._left_behind.setdefault(worker, set()).update(names)
        if self._free_on(self._numbers, names):
            self._containers.difference_update(names)

    def _free_on(self, workers: Sequence[int], names: Collection[str]) -> bool:
        """Free containers on some workers, and return whether these have answered."""
        from hetero_mtf.runtime.session import CLOSE_LIMIT_S, WatchedCalls

        hosts = [self._backend.hosts[worker] for worker in workers]
        watch, freed = WatchedCalls(self._backend.fault), False
        with contextlib.suppress(WorkerError):
            freed = watch(lambda: free_containers(hosts, sorted(names)), limit_s=CLOSE_LIMIT_S)
        watch.close()
        return freed
