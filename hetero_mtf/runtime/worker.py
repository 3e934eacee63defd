"""A worker: one process that runs TensorFlow's server for one task of a cluster.

TensorFlow's server listens on every interface of the machine, whatever address it is given, and does not authenticate clients. The
ports of emulated workers are closed to others by their supervisor, where it may (`firewall`). A worker that serves other hosts says that
its port is open: run it in trusted networks only, and end it when it is not needed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hetero_mtf.devices.addresses import lease_port
from hetero_mtf.devices.environment import bypass_proxy
from hetero_mtf.devices.host import available_cores
from hetero_mtf.devices.instruction_sets import VARIABLE, setting
from hetero_mtf.errors import ClusterError
from hetero_mtf.runtime import firewall
from hetero_mtf.runtime.liveness.lease_listener import LeaseListener
from hetero_mtf.runtime.ports import check_port, split_address
from hetero_mtf.runtime.processes.parent_death import tie_to_parent
from hetero_mtf.runtime.shared.worker_functions import register

PORT_TAKEN = 98
# On one core a kernel of the critical path and one that may be late compute at the same time; the other threads let sending and
# receiving go on meanwhile, and the first worker start the others. TensorFlow's own choice is as many as there are cores.
_LEAST_INTER_OP_THREADS = 4
_WAKE_S = 0.5
GRACE_S = 20.0  # less than the 30 s after which Slurm and Kubernetes kill
_RELEASED_S = 0.1


def serve(
    hosts: Sequence[str],
    task: int,
    *,
    threads: int | None = None,
    ready: Callable[[], None] | None = None,
    leased: bool = True,
    allowed: Sequence[str] | None = None,
) -> None:
    """Run the server of one task until the process is interrupted. No Python program can stop such a server: end the process.

    By a signal other than SIGINT it ends when the program that uses it has released it, at most `GRACE_S` seconds later.

    A leased server is for one program at a time. When that program is killed, this process executes itself again, with the same
    process id: the system then frees all that the program left, which TensorFlow would keep for ever.

    Parameters
    ----------
    hosts : (tasks,) "HOST:PORT" of every task, the same list in every worker.
    task : which of them this process is.
    threads : cores to use, as intra-op threads; None for all. A pinned worker of one core takes 1.
    ready : called once the server listens.
    leased : whether programs ask for the lease of the server; not where it ends with the one program that started it.
    allowed : addresses and networks that may connect besides the hosts of the list, while it serves; None leaves its ports as they are.

    Raises
    ------
    ClusterError
        If the task is not in the list, its address is not of this machine, a port is in use, or its ports cannot be closed to others.
    """
    if not 0 <= task < len(hosts):
        raise ClusterError(f"task {task} is not among the {len(hosts)} hosts {', '.join(hosts)}", "number tasks from 0")
    port = split_address(hosts[task])[1]
    check_port(port)
    bypass_proxy(hosts)
    closed = None if allowed is None else firewall.close_to_others([port, lease_port(port)], [*hosts, *allowed])  # while it serves
    listener = LeaseListener(hosts, task, _start_again) if leased else None
    try:
        server = _server(hosts, task, threads, port)
    except BaseException:
        if listener is not None:
            listener.close()
        raise
    if listener is not None:
        listener.start()
        if closed is None:
            firewall.tell_once(firewall.served_text(port))
    if ready is not None:
        ready()
    try:
        _await_end(listener)
    finally:
        if closed is not None:
            closed.remove()
    del server


def _await_end(listener: LeaseListener | None) -> None:
    """Wait until a signal ends this process."""
    never = threading.Event()
    try:
        while not never.wait(_WAKE_S):  # a signal that comes just before a wait without end would not be handled
            pass
    except KeyboardInterrupt as stop:
        if listener is not None and getattr(stop, "number", signal.SIGINT) != signal.SIGINT:
            _await_release(listener)
        raise


def _await_release(listener: LeaseListener) -> None:
    """Wait a while for the program that uses this worker: where a job ends, both are told so at once, and the program saves its state."""
    listener.ending, end_s = True, time.monotonic() + GRACE_S
    with contextlib.suppress(KeyboardInterrupt):  # who asks twice does not wait
        while listener.leased and time.monotonic() < end_s:
            time.sleep(_RELEASED_S)


def _server(hosts: Sequence[str], task: int, threads: int | None, port: int) -> object:
    import tensorflow as tf  # takes seconds: a wrong address or port is refused before

    inter_op_threads = max(_LEAST_INTER_OP_THREADS, len(available_cores())) if threads is None else _LEAST_INTER_OP_THREADS * threads
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=threads or 0, inter_op_parallelism_threads=inter_op_threads)
    config.gpu_options.allow_growth = True
    try:
        return tf.distribute.Server({"worker": list(hosts)}, job_name="worker", task_index=task, protocol="grpc", config=config)
    except tf.errors.OpError as fault:
        check_port(port)
        raise ClusterError(f"TensorFlow's server for {hosts[task]} did not start ({fault.message})", "choose another port") from fault


def _start_again(holder: str) -> None:
    """Execute this process again with the arguments it was started with."""
    with contextlib.suppress(OSError):
        os.write(2, f"the program that used this worker, {holder}, ended without releasing it; the worker starts again\n".encode())
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):
            if int(name) > 2:
                os.set_inheritable(int(name), False)  # also those of drivers, which keep the memory of their devices
    try:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    finally:
        os._exit(1)  # only where the interpreter is gone


def _announce(line: int) -> None:
    os.write(line, b"ready\n")


def main(order: Mapping[str, Any]) -> int:
    """Run an emulated worker as its supervisor ordered, and return the exit code.

    Parameters
    ----------
    order : the supervisor's process id, hosts, task, core, and the instruction set of its kernels, "" for all.
    """
    if not tie_to_parent(order["supervisor"], signal.SIGKILL):
        return 0
    if order["instruction_set"]:
        os.environ[VARIABLE] = setting(order["instruction_set"])
    os.sched_setaffinity(0, {order["core"]})
    line = os.dup(1)
    os.dup2(2, 1)
    try:
        check_port(split_address(order["hosts"][order["task"]])[1])
        registered = register()
        serve(order["hosts"], order["task"], threads=1, ready=lambda: _announce(line), leased=False)
        del registered
    except ClusterError as fault:
        print(fault, file=sys.stderr, flush=True)
        return PORT_TAKEN
    return 0

