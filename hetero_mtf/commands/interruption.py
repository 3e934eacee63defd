"""Ctrl-C while several threads measure: the main thread hears it, the others end because their cluster does."""

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
