"""Ctrl-C and orders to end: the main thread hears them, threads that measure end because their cluster does.

Training stops at a step boundary, where its state can be saved: see `StopRequest`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any

import click

from hetero_mtf.errors import HeteroError

LOOK_S = 0.5
SAME_S = 0.3
ANSWER_LIMIT_S = 1.4  # after which a worker is not waited for once a stop was asked for; workers answer in fractions of a second
CLOSE_LIMIT_S, ORDERLY_CLOSE_LIMIT_S = 1.5, 10.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def interruptible(end: Callable[[], None]) -> Iterator[None]:
    """Let an interruption end what other threads of the block wait for.

    A pool of threads waits for all of them before it lets an interruption through, and a thread that waits for a server does
    not hear of it. So the first Ctrl-C calls `end` and raises KeyboardInterrupt; the block is left once `end` has returned, and
    another Ctrl-C changes nothing. Outside the main thread, which alone hears signals, nothing is done.

    Parameters
    ----------
    end : makes whatever the threads wait for fail, such as the cluster's `close`; called in a thread of its own.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ending = threading.Thread(target=end, name="hetero_mtf-interrupted")
    asked = threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not asked.is_set():
            asked.set()
            ending.start()
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        if asked.is_set():
            ending.join()
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def terminable() -> Iterator[list[int]]:
    """Let SIGTERM and SIGHUP end the block as Ctrl-C does, so that scratch files and workers go; yield a list that gets their numbers.

    A signal that is ignored, as SIGHUP is under nohup, stays ignored. Outside the main thread nothing is done.
    """
    heard: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield heard
        return

    def end(number: int, frame: FrameType | None) -> None:
        heard.append(number)
        interrupt = signal.getsignal(signal.SIGINT)
        if not callable(interrupt) or interrupt is signal.default_int_handler:
            raise Interrupted("interrupted", number)
        interrupt(number, frame)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler == signal.SIG_DFL:
            signal.signal(number, end)
    try:
        yield heard
    finally:
        for number, handler in before.items():
            if handler == signal.SIG_DFL:
                signal.signal(number, handler)


class Interrupted(KeyboardInterrupt):
    """A signal ended training; the text says what is saved and how to go on.

    Parameters
    ----------
    text : one sentence for the user.
    number : number of the signal; the exit code is 128 more.
    """

    def __init__(self, text: str, number: int) -> None:
        super().__init__(text)
        self.number = number


class StopRequest:
    """A request to stop training, made by a signal and granted at the next step boundary.

    In a `deferred` block the first SIGINT, SIGTERM or SIGHUP sets `asked` and nothing else. Whoever trains looks at it after each
    step, saves the state and raises `interrupted(...)`. The running step is waited for as long as the workers answer; a line says so
    where the step takes longer than half a second. Two events end the run before the step has returned, with `Interrupted` raised in
    the main thread wherever it waits: a second Ctrl-C, and a fault that `unresponsive` returns. If what must be closed then does not
    close within `CLOSE_LIMIT_S` seconds, or `ORDERLY_CLOSE_LIMIT_S` after a step that has ended, as where a worker hangs, the process
    ends without; emulated workers end with it.

    A signal that is repeated within `SAME_S` seconds counts once: programs such as timeout signal the process and its group. A
    signal that is ignored stays ignored. Outside the main thread, which alone hears signals, nothing is done.

    Use it in a with-statement around all that must be closed after training; else there is no such limit.

    Parameters
    ----------
    unresponsive : asked every `LOOK_S` seconds once a stop was asked for; returns why the running step will never return, or None. It
        is called in the main thread and must return at once.
    clock : seconds, increasing.

    Attributes
    ----------
    saved : what is saved so far and how to go on, for the last line; kept up to date by whoever saves.
    goes_on : how to go on, where that is not by the state that is saved, as of one training of several; "" for by the state.
    """

    def __init__(self, unresponsive: Callable[[], HeteroError | None] = lambda: None, clock: Callable[[], float] = time.monotonic) -> None:
        self.unresponsive = unresponsive
        self.saved, self.goes_on = "nothing is saved", ""
        self._clock = clock
        self._number: int | None = None
        self._asked_s = 0.0
        self._told = False
        self._entered = False
        self._forced: threading.Timer | None = None

    @property
    def asked(self) -> bool:
        """Whether a signal has asked for the end of training."""
        return self._number is not None

    def interrupted(self, saved: str) -> Interrupted:
        """Return what to raise at a step boundary after a signal.

        Parameters
        ----------
        saved : what is saved and how to go on.
        """
        return self._limited(f"interrupted; {saved}", ORDERLY_CLOSE_LIMIT_S)

    def __enter__(self) -> StopRequest:
        self._entered = True
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        if self._forced is not None:
            self._forced.cancel()

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Let signals set `asked` during the block, rather than end it."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handlers = {number: signal.getsignal(number) for number in _SIGNALS}
        heard = [number for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)]
        alarm, timer = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
        for number in heard:
            signal.signal(number, self._ask)
        try:
            yield
        finally:
            for number in heard:
                signal.signal(number, handlers[number])
            if self.asked:  # then the alarm was taken, and is given back
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, alarm)
                signal.setitimer(signal.ITIMER_REAL, *timer)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self._number is None:
            self._number, self._asked_s = number, self._clock()
            signal.signal(signal.SIGALRM, self._look)
            signal.setitimer(signal.ITIMER_REAL, LOOK_S, LOOK_S)
        elif number == signal.SIGINT and self._clock() - self._asked_s > SAME_S:
            raise self._at_once("interrupted before the running step had ended")

    def _look(self, number: int, frame: FrameType | None) -> None:
        fault = self.unresponsive()
        if fault is not None:
            raise self._at_once(f"interrupted, and the running step was not waited for: {fault}")
        if not self._told:
            with contextlib.suppress(RuntimeError, OSError):  # the stream is being written to at this moment: next time
                click.echo("hetero-mtf: finishing the step; press Ctrl-C again to stop at once", err=True)
                self._told = True

    def _at_once(self, why: str) -> Interrupted:
        signal.setitimer(signal.ITIMER_REAL, 0)
        return self._limited(f"{why}; {self.saved}", CLOSE_LIMIT_S)

    def _limited(self, text: str, limit_s: float) -> Interrupted:
        """Return what to raise; what is closed then has so many seconds."""
        number = self._number or signal.SIGINT
        if self._forced is None and self._entered:
            self._forced = threading.Timer(limit_s, _exit, [text, 128 + number])
            self._forced.daemon = True
            self._forced.start()
        return Interrupted(text, number)


@contextlib.contextmanager
def naming(saved: str) -> Iterator[None]:
    """Let an interruption of the block say what is saved.

    Parameters
    ----------
    saved : what is saved and how to go on.
    """
    try:
        yield
    except Interrupted:
        raise
    except KeyboardInterrupt as stop:
        raise Interrupted(f"interrupted; {saved}", signal.SIGINT) from stop


def _exit(text: str, code: int) -> Any:
    """End the process without closing anything, from whatever thread."""
    with contextlib.suppress(OSError):
        os.write(2, f"hetero-mtf: {' '.join(text.split())}\n".encode())
    os._exit(code)
