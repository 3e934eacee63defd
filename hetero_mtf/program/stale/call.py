"""Calls that run while their caller goes on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any


class Call:
    """A function call on a thread of its own, which does not keep the program from ending.

    Parameters
    ----------
    function : called once, without arguments.
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self._answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        self._answer: tuple[Any, BaseException | None] | None = None
        threading.Thread(target=self._work, args=(function,), name="hetero_mtf-call", daemon=True).start()

    def result(self) -> Any:
        """Return what the function returned, when it has, or raise what it raised."""
        if self._answer is None:
            self._answer = self._answers.get()
        answer, fault = self._answer
        if fault is not None:
            raise fault
        return answer

    def _work(self, function: Callable[[], Any]) -> None:
        try:
            answer: tuple[Any, BaseException | None] = (function(), None)
        except BaseException as fault:  # noqa: BLE001 - raised in the caller
            answer = (None, fault)
        self._answers.put(answer)
