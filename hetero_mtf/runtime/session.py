"""Sessions on a cluster: their configuration, and a session that raises when its worker is gone."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.errors import HeteroError, WorkerError

_LOOK_S = 0.25
# for so long after a fault is known a call may still end by itself; its own answer is preferred
_GRACE_S = 1.0
CLOSE_LIMIT_S = 30.0
CLOSE_BESIDE_FAULT_S = 2.0  # where the server goes on and another worker of the session may never answer it


def session_config(tasks: Sequence[int] = ()) -> tf.compat.v1.ConfigProto:
    """Return how sessions are configured.

    Nothing is placed elsewhere than asked, GPU memory grows as needed, and grappler's meta optimizer is off: on graphs of
    many slices it takes longer than it saves.

    Parameters
    ----------
    tasks : numbers of the workers of the cluster that it is on; it waits for these alone, not for others that may be gone. Empty for a
        session in this process.
    """
    config = tf.compat.v1.ConfigProto(allow_soft_placement=False)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.gpu_options.allow_growth = True
    config.device_filters.extend(f"/job:worker/task:{task}" for task in tasks)
    return config


class _Runner:
    """A thread that makes calls for others, one at a time, and can be abandoned in one that never returns."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="hetero_mtf-session", daemon=True).start()

    def give(self, call: Callable[[], Any] | None) -> None:
        """Make the thread call; None ends it."""
        self._calls.put(call)

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            if call is None:
                return
            try:
                answer: tuple[Any, BaseException | None] = (call(), None)
            except BaseException as fault:  # noqa: BLE001 - handed to the caller
                answer = (None, fault)
            call = None
            self.answers.put(answer)
            del answer


class WatchedCalls:
    """Makes calls that may never return, and abandons them when the cluster is at fault.

    TensorFlow's client waits for ever for a server that has died, in C++ without handling signals; so the call is made on
    another thread while the caller checks the workers.

    Parameters
    ----------
    fault : returns what is wrong with the cluster, or None.
    """

    def __init__(self, fault: Callable[[], WorkerError | None]) -> None:
        self._fault = fault
        self._idle: list[_Runner] = []
        self._interrupted: list[_Runner] = []

    def __call__(self, call: Callable[[], Any], waits: bool = True, limit_s: float = float("inf")) -> Any:
        """Return what `call` returns.

        Parameters
        ----------
        call : the call.
        waits : whether it is made after a call that was interrupted here is done on the cluster.
        limit_s : seconds after which it is abandoned; only for calls whose answer nobody needs.

        Raises
        ------
        WorkerError
            If the cluster is at fault before the call or during it, or the call takes too long.
        """
        fault = self._fault()
        if fault is not None:
            raise fault
        while waits and self._interrupted:
            self._answer(self._interrupted[-1])
            self._interrupted.pop()
        try:
            runner = self._idle.pop()
        except IndexError:
            runner = _Runner()
        runner.give(call)
        try:
            answer, error = self._answer(runner, limit_s)
        except BaseException as stop:
            runner.give(None)
            self._interrupted += [] if isinstance(stop, WorkerError) else [runner]
            raise
        self._idle.append(runner)
        if error is not None:
            raise error
        return answer

    def close(self) -> None:
        """End the idle threads."""
        self._interrupted.clear()
        while self._idle:
            self._idle.pop().give(None)

    def _answer(self, runner: _Runner, limit_s: float = float("inf")) -> tuple[Any, BaseException | None]:
        end_s = time.monotonic() + limit_s
        while True:
            with contextlib.suppress(queue.Empty):
                return runner.answers.get(timeout=_LOOK_S)
            fault = self._fault()
            if fault is None and time.monotonic() >= end_s:
                raise WorkerError(f"a call took longer than {limit_s:.0f} s", "start the workers again")
            if fault is None:
                continue
            try:
                return runner.answers.get(timeout=_GRACE_S)
            except queue.Empty:
                raise fault from None


class WatchedSession(tf.compat.v1.Session):
    """A session whose calls raise `WorkerError`, rather than wait for ever, when a worker is gone.

    Parameters
    ----------
    target, graph, config : as in `tf.compat.v1.Session`.
    fault : returns what is wrong with the cluster, or None.
    server_fault : returns why the server that the session talks to cannot close it, or None; None for as `fault`.
    """

    def __init__(
        self,
        target: str,
        graph: tf.Graph,
        config: tf.compat.v1.ConfigProto,
        fault: Callable[[], WorkerError | None],
        server_fault: Callable[[], WorkerError | None] | None = None,
    ) -> None:
        self._fault = fault
        self._watch, self._closing = WatchedCalls(fault), WatchedCalls(server_fault or fault)
        self._open = True
        self._callables: list[Any] = []  # each calls the server when it is collected, which never returns where the server hangs
        super().__init__(target, graph=graph, config=config)

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Run as `tf.compat.v1.Session.run` does."""
        run = super().run
        return self._watch(lambda: run(fetches, feed_dict, options, run_metadata))

    def make_callable(self, fetches: Any, feed_list: Any = None, accept_options: bool = False) -> Callable[..., Any]:
        """Return a callable as `tf.compat.v1.Session.make_callable` does, watched like `run`."""
        make = super().make_callable
        call = self._watch(lambda: make(fetches, feed_list, accept_options))
        self._callables.append(call)
        return lambda *values, **options: self._watch(lambda: call(*values, **options))

    def list_devices(self) -> Any:
        """Return the devices as `tf.compat.v1.Session.list_devices` does."""
        return self._watch(super().list_devices)

    def close(self) -> None:
        """Close the session; a session whose worker is gone is dropped."""
        if not getattr(self, "_open", False):
            return
        self._open = False
        close = super().close
        with contextlib.suppress(HeteroError, tf.errors.OpError):
            self._closing(close, waits=False, limit_s=CLOSE_LIMIT_S if self._fault() is None else CLOSE_BESIDE_FAULT_S)
        self._closed = True  # TensorFlow's own mark: a session that was dropped makes no more calls to its server
        self._callables.clear()
        self._watch.close()
        self._closing.close()


class OpenSessions:
    """The sessions open on one cluster, which several threads may open and close."""

    def __init__(self) -> None:
        self._sessions: weakref.WeakSet[WatchedSession] = weakref.WeakSet()
        self._lock = threading.RLock()  # a session that is collected closes wherever it happens

    def add(self, session: WatchedSession) -> None:
        """Remember a session as long as it is open."""
        with self._lock:
            self._sessions.add(session)

    def open(self) -> list[WatchedSession]:
        """Return those that are open."""
        with self._lock:
            return [session for session in self._sessions if session._open]

    def close(self) -> None:
        """Close all of them."""
        for session in self.open():
            session.close()
