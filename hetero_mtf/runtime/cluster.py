"""Cluster: live devices, and sessions on them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from hetero_mtf.devices import environment, slurm
from hetero_mtf.devices.addresses import Addresses, parse_hosts, parse_tf_config
from hetero_mtf.devices.host import allow_memory_growth, this_host
from hetero_mtf.devices.records import LIMITS, ClusterRecord, Device
from hetero_mtf.errors import ClusterError, HeteroError, WorkerError
from hetero_mtf.runtime.container import Container
from hetero_mtf.runtime.emulation import Emulation
from hetero_mtf.runtime.faults import explain, is_lost_connection
from hetero_mtf.runtime.in_process import InProcess
from hetero_mtf.runtime.limits.cores import read_shares
from hetero_mtf.runtime.liveness.heartbeat import WORKER_TIMEOUT_S, checked_timeout_s
from hetero_mtf.runtime.remote import Remote
from hetero_mtf.runtime.workers_in_use import WorkersInUse

# TensorFlow, and `session`, which imports it, are imported where a session is opened: a cluster is made and described without them.
if TYPE_CHECKING:
    import tensorflow as tf

    from hetero_mtf.runtime.backend import Backend

_FORMS = "local, emulate:1.0,0.5, tf_config, slurm or hosts:HOST:PORT,..."


class Cluster:
    """Live devices: of this process, emulated by worker processes, or of servers elsewhere.

    Make one with `local`, `emulate`, `from_tf_config`, `from_slurm`, `hosts` or `parse`. It ends with `close`, the
    with-statement or the process. TensorFlow's servers, which emulated and remote devices run on, listen on every
    interface without authentication: use remote devices, and emulated ones with `open_ports`, in trusted networks only.

    Parameters
    ----------
    backend : the implementation.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._workers = WorkersInUse(backend)
        self._closed = False

    @classmethod
    def local(cls, devices: Sequence[str] | None = None) -> Cluster:
        """Return the devices of this process.

        Parameters
        ----------
        devices : "cpu:0" or "gpu:N" each, repeated for several processors on one device; None: every GPU, then the CPU.

        Raises
        ------
        ClusterError
            If there is no such device.
        """
        return cls(InProcess(this_host(devices)))

    @classmethod
    def emulate(
        cls,
        shares: Sequence[float],
        method: str | None = None,
        worker_timeout_s: float = WORKER_TIMEOUT_S,
        limit: str = LIMITS[0],
        instruction_sets: Sequence[str] = (),
    ) -> Cluster:
        """Return emulated devices: one worker process each, pinned to a core and limited to a share of it.

        The workers start while the program goes on; the first session waits for them, and raises if one has died.

        Parameters
        ----------
        shares : (devices,) share of a core of each, in (0, 1].
        method : "cgroup", "duty_cycle", or None for a control group where one can be made, else a duty cycle.
        worker_timeout_s : seconds without an answer after which a worker counts as lost; a step may take as long as it likes.
        limit : "process" to limit all that a worker does; "compute" to limit those of its threads that compute, as a real device's
            links take none of its compute time. Threads that send and receive may then use all cores. It needs a control group.
        instruction_sets : (devices,) "sse41", "avx", "avx2" or "avx512": the newest that oneDNN's kernels may use on each device, which
            makes devices unlike in each layer; "" for all that the CPU has; empty for all on all devices.

        Raises
        ------
        ClusterError
            If the cores cannot give these shares, the CPU has not such instructions, or a method or limit that is asked for does not
            work here.
        """
        timeout_s = checked_timeout_s(worker_timeout_s)
        return cls(Emulation(shares, method, worker_timeout_s=timeout_s, limit=limit, instruction_sets=instruction_sets))

    @classmethod
    def from_tf_config(
        cls, text: str | None = None, worker_timeout_s: float = WORKER_TIMEOUT_S, wait_s: float | None = None, spare: int = 0
    ) -> Cluster:
        """Return the devices of the workers in TF_CONFIG, each started with `hetero-mtf worker`; this process is their client.

        Parameters
        ----------
        text : TF_CONFIG's text, None to read it from the environment.
        worker_timeout_s : as in `emulate`.
        wait_s : seconds to wait for workers that are not there yet, or whose names cannot be resolved yet; None: 30.
        spare : workers that need not be there, the last ones first; they are left out, until elastic training takes them in.

        Raises
        ------
        ClusterError
            If the text is wrong, or a server does not answer.
        """
        addresses = parse_tf_config(environment.variables().get("TF_CONFIG") if text is None else text)
        return cls(_remote(addresses, wait_s, worker_timeout_s, spare))

    @classmethod
    def from_slurm(cls, worker_timeout_s: float = WORKER_TIMEOUT_S, wait_s: float | None = None, spare: int = 0) -> Cluster:
        """Return the devices of this Slurm job's tasks, each running `hetero-mtf worker`; this process is their client.

        Parameters
        ----------
        worker_timeout_s : as in `emulate`.
        wait_s : seconds to wait for workers that are not there yet, or whose names cannot be resolved yet; None: 30.
        spare : workers that need not be there, the last ones first; they are left out, until elastic training takes them in.

        Raises
        ------
        ClusterError
            If this is no Slurm job, or a server does not answer.
        """
        return cls(_remote(slurm.parse_slurm(environment.variables()), wait_s, worker_timeout_s, spare))

    @classmethod
    def hosts(
        cls, hosts: Sequence[str], worker_timeout_s: float = WORKER_TIMEOUT_S, wait_s: float | None = None, spare: int = 0
    ) -> Cluster:
        """Return the devices of servers started with `hetero-mtf worker`; this process is their client.

        Parameters
        ----------
        hosts : (servers,) "HOST:PORT", in the order every server was given.
        worker_timeout_s : as in `emulate`.
        wait_s : seconds to wait for workers that are not there yet, or whose names cannot be resolved yet; None: 30.
        spare : workers that need not be there, the last ones first; they are left out, until elastic training takes them in.

        Raises
        ------
        ClusterError
            If an address is wrong, a server does not answer, or another program uses one.
        """
        return cls(_remote(parse_hosts(hosts), wait_s, worker_timeout_s, spare))

    @classmethod
    def parse(
        cls, text: str, worker_timeout_s: float = WORKER_TIMEOUT_S, wait_s: float | None = None, spare: int = 0
    ) -> Cluster:
        """Return the cluster that a command line names.

        Parameters
        ----------
        text : "local", "local:cpu:0,cpu:0", "emulate:1.0,0.5", "emulate:1.0,0.5:compute", "emulate:1.0@avx512,1.0@avx2", "tf_config",
            "slurm" or "hosts:HOST:PORT,...".
        worker_timeout_s : as in `emulate`.
        wait_s : seconds to wait for workers that are not there yet, or whose names cannot be resolved yet; None: 30.
        spare : workers that need not be there, the last ones first; they are left out, until elastic training takes them in.

        Raises
        ------
        ClusterError
            If the text is of another form, or the cluster cannot be opened.
        """
        kind, _, rest = text.strip().partition(":")
        parts = [part.strip() for part in rest.split(",") if part.strip()]
        if kind == "local" and (parts or ":" not in text):
            return cls.local(parts or None)
        if kind == "emulate" and parts:
            shares, instruction_sets, limit = read_shares(text)
            return cls.emulate(shares, worker_timeout_s=worker_timeout_s, limit=limit, instruction_sets=instruction_sets)
        if kind == "hosts" and parts:
            return cls.hosts(parts, worker_timeout_s, wait_s, spare)
        if text.strip() == "tf_config":
            return cls.from_tf_config(None, worker_timeout_s, wait_s, spare)
        if text.strip() == "slurm":
            return cls.from_slurm(worker_timeout_s, wait_s, spare)
        raise ClusterError(f"{text!r} names no cluster", f"write {_FORMS}")

    @property
    def record(self) -> ClusterRecord:
        """The devices in use and their memory pools as a frozen record."""
        return self._workers.record

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices in use; the index of a device is its number."""
        return self.record.devices

    @property
    def target(self) -> str:
        """What a TensorFlow session connects to: "" in process, "grpc://HOST:PORT" otherwise."""
        return self._backend.target

    @property
    def shares_memory(self) -> bool:
        """Whether the devices' workers read memory of this process: those of emulated devices do."""
        return isinstance(self._backend, Emulation)

    @property
    def has_servers(self) -> bool:
        """Whether the devices are those of servers that were started elsewhere, such as on other hosts."""
        return isinstance(self._backend, Remote)

    def session(self, graph: tf.Graph) -> tf.compat.v1.Session:
        """Return a session of `graph` on the cluster; close it when done.

        Its calls raise `WorkerError` promptly when a worker is gone, where TensorFlow alone may wait for ever.

        Parameters
        ----------
        graph : graph whose operations are placed on the `tf_device` of this cluster's devices.

        Raises
        ------
        ClusterError
            If the cluster is closed.
        WorkerError
            If a worker is gone, or did not start.
        """
        self._check()
        if self.target:
            return self._workers.session(graph)
        import tensorflow as tf

        from hetero_mtf.runtime.session import session_config

        allow_memory_growth()
        return tf.compat.v1.Session("", graph=graph, config=session_config())

    def worker_session(self, graph: tf.Graph, task: int) -> tf.compat.v1.Session:
        """Return a session with one worker alone, which sends what it is fed there directly; variables and errors are those of `session`.

        Parameters
        ----------
        graph : graph of operations on that worker.
        task : number of a worker of this cluster.
        """
        self._check()
        return self._workers.session_with(graph, task)

    def container(self, prefix: str = "trainer") -> Container:
        """Return a container of a name of its own for one trainer's variables; release it when done. It raises as `session`.

        Parameters
        ----------
        prefix : start of the name, for people.
        """
        self._check()
        return self._workers.container(prefix)

    def unresponsive(self, limit_s: float) -> WorkerError | None:
        """Return which workers have left a question unanswered for `limit_s` seconds, or None.

        It never waits and may be called by a signal's handler: each call asks the workers without an open question, so call it
        repeatedly. Once a worker is named, calls of sessions raise the error too, whatever the worker timeout, until it answers.

        Parameters
        ----------
        limit_s : seconds for an answer; workers answer during a step too, within fractions of a second.
        """
        return self._backend.unresponsive(limit_s)

    def fault(self) -> WorkerError | None:
        """Return which worker is known to have died, or no longer answers, or None; it does not wait."""
        return self._backend.fault()

    @property
    def left_out(self) -> tuple[int, ...]:
        """The numbers of the workers that are left out."""
        return tuple(sorted(self._workers.left_out))

    def leave_out(self, workers: Collection[int]) -> None:
        """Go on without some workers, as they are gone, or with those that were left out before: all but these are used from now on.

        A session that was opened before ends with an error where it is on one of them. `record` and `devices` are of the devices in use
        from then on, which get other numbers; workers keep their numbers.

        Parameters
        ----------
        workers : numbers of workers, as in `WorkerError.lost`; empty for none.

        Raises
        ------
        ClusterError
            If there is no such worker, or none would be left.
        """
        self._workers.leave_out(workers)

    def returned(self) -> tuple[int, ...]:
        """Return the workers that are left out and could be used again, as they answer, and the others reach them; it hardly waits."""
        return self._backend.returned()

    def explain(self, exception: BaseException, layers: Sequence[str] = ()) -> HeteroError:
        """Return one sentence for an error of a session on this cluster: which worker is dead and how, or TensorFlow's message.

        Parameters
        ----------
        exception : what was raised; `raise cluster.explain(fault) from fault`.
        layers : names of the network's layers, to name the one that a device had no room for.
        """
        fault = self._backend.fault(wait_s=2.0 if is_lost_connection(exception) else 0.0)
        return explain(exception, fault, self.devices, layers)

    def set_share(self, index: int, share: float) -> None:
        """Change the share of a core that a running emulated device gets, without changing the record.

        Parameters
        ----------
        index : index of the device.
        share : share of a core, in (0, 1].

        Raises
        ------
        ClusterError
            If the devices are not emulated, there is no such device, or the share is out of range.
        WorkerError
            If the worker is dead, or the limit could not be set.
        """
        if not isinstance(self._backend, Emulation):
            raise ClusterError("only emulated devices have a share that can be set", "open the cluster with emulate:...")
        self._check()
        self._backend.set_share(index, share)

    def process_ids(self) -> tuple[int, ...]:
        """Return (devices,) the process ids of emulated devices' workers; empty for other clusters."""
        return self._backend.process_ids() if isinstance(self._backend, Emulation) else ()

    @property
    def method(self) -> str:
        """How emulated devices are limited: "cgroup", "cgroup, compute only" or "duty_cycle"; "" for other clusters."""
        return self._backend.method if isinstance(self._backend, Emulation) else ""

    @property
    def open_ports(self) -> tuple[int, ...]:
        """The ports of emulated devices that other users and hosts can reach, () where rules close them; () for other clusters too."""
        return self._backend.open_ports if isinstance(self._backend, Emulation) else ()

    @property
    def closed(self) -> bool:
        """Whether it was closed, so that nothing runs on it any more."""
        return self._closed

    def close(self) -> None:
        """Close the sessions and end what was started for this cluster. Closing twice is harmless."""
        if self._closed:
            return
        self._closed = True
        freed = False
        try:
            freed = self._workers.close()
        finally:
            self._backend.close(freed)

    def __repr__(self) -> str:
        names = ", ".join(d.name if d.share == 1.0 else f"{d.name} ({d.share:g} of a core)" for d in self.devices)
        return f"<Cluster of {len(self.devices)} device{'s' * (len(self.devices) != 1)}: {names}{', closed' * self._closed}>"

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _check(self) -> None:
        if self._closed:
            raise ClusterError("the cluster is closed", "open it again")
        fault = self._backend.fault()
        if fault is not None:
            raise fault


def _remote(addresses: Addresses, wait_s: float | None, worker_timeout_s: float, spare: int) -> Remote:
    """Return servers that are reached."""
    if isinstance(spare, bool) or not isinstance(spare, int) or not 0 <= spare < len(addresses.hosts):
        many = len(addresses.hosts)
        raise ClusterError(f"{spare!r} of {many} workers are to be spare ones", f"give a whole number from 0 to {many - 1}")
    return Remote(addresses, wait_s, checked_timeout_s(worker_timeout_s), spare)


def check_live(cluster: object) -> None:
    """Raise unless something is a cluster that sessions can be opened on.

    Raises
    ------
    ClusterError
        If it is anything else, such as None or a ClusterRecord.
    """
    if not hasattr(cluster, "session") or not hasattr(cluster, "devices"):
        raise ClusterError(f"the cluster is {cluster!r:.60}, not a live Cluster", "open one, such as hm.Cluster.local()")
