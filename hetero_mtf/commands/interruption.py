"""Ctrl-C and orders to end: the main thread hears them, threads that measure end because their cluster does."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


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
        if not callable(interrupt):
            raise KeyboardInterrupt
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
