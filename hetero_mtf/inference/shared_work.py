"""Pieces of work that unequal devices take as they become free, by the seconds that each was measured to need."""

from __future__ import annotations

import collections
import heapq
import statistics
import threading
import time
from collections.abc import Callable

LAST_PIECES = 9  # of a device, whose median is what it needs for one
LOOK_S = 0.05  # between looks of a device that waits


class SharedWork:
    """Hands pieces out so that the last one is done as early as possible.

    A device takes the next piece as soon as it is free, unless the others would have done all that are left before it had done this one.
    A device that is free when none is left does a piece again that another one would need longer for, as one does that turns out slow or
    hangs; what is done first counts.

    Parameters
    ----------
    pieces : their number.
    devices : number of devices.
    clock : seconds, increasing.

    Attributes
    ----------
    taken : number of pieces of each device whose results were used.
    """

    def __init__(self, pieces: int, devices: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._pieces = clock, pieces
        self._next = 0
        self._running: dict[int, tuple[int, float]] = {}  # device -> piece, and when it was begun
        self._done: set[int] = set()
        self._seconds = [collections.deque[float](maxlen=LAST_PIECES) for _ in range(devices)]
        self._changed = threading.Condition()
        self._fault: BaseException | None = None
        self.taken = [0] * devices

    def take(self, device: int) -> int | None:
        """Return the next piece of a device, which may be waited for; None where there is none for it any more.

        Parameters
        ----------
        device : its number; it has no piece now.
        """
        with self._changed:
            while True:
                if self._fault is not None or len(self._done) == self._pieces:
                    return None
                piece = self._piece_for(device)
                if piece is not None:
                    self._next = max(self._next, piece + 1)
                    self._running[device] = piece, self._clock()
                    return piece
                self._changed.wait(LOOK_S)

    def note(self, device: int, seconds: float) -> None:
        """Note how long a device has needed for a piece.

        Parameters
        ----------
        seconds : without what is needed once only, such as building a graph.
        """
        with self._changed:
            self._seconds[device].append(seconds)

    def finish(self, device: int) -> bool:
        """Return whether the piece that a device has now is done by it first, so that its result is to be used.

        Parameters
        ----------
        device : its number.
        """
        with self._changed:
            piece, _ = self._running.pop(device)
            is_first = piece not in self._done
            self._done.add(piece)
            self.taken[device] += is_first
            self._changed.notify_all()
            return is_first

    def fail(self, fault: BaseException) -> None:
        """Hand no more pieces out.

        Parameters
        ----------
        fault : why; `wait` raises the first one.
        """
        with self._changed:
            self._fault = self._fault or fault
            self._changed.notify_all()

    def wait(self) -> None:
        """Return when all pieces are done; raise what one failed with."""
        with self._changed:
            self._changed.wait_for(lambda: self._fault is not None or len(self._done) == self._pieces)
            fault = self._fault if len(self._done) < self._pieces else None
        if fault is not None:
            raise fault

    def _piece_for(self, device: int) -> int | None:
        now_s, own_s = self._clock(), self._needs_s(device)
        if self._next < self._pieces:
            return self._next if own_s is None or self._others_end_s(device, now_s) > now_s + own_s else None
        if own_s is None:
            return None
        late = [(self._end_s(other, now_s), piece) for other, (piece, _) in self._running.items() if piece not in self._done]
        twice = collections.Counter(piece for piece, _ in self._running.values())
        end_s, piece = max(((end_s, piece) for end_s, piece in late if twice[piece] == 1), default=(0.0, 0))
        return piece if end_s > now_s + own_s else None

    def _needs_s(self, device: int) -> float | None:
        """Return the seconds that a device needs for a piece; None where that is not known."""
        return statistics.median(self._seconds[device]) if self._seconds[device] else None

    def _end_s(self, device: int, now_s: float) -> float:
        """Return when a device will have done the piece that it has now; one that is late is taken to need as long again."""
        _, begun_s = self._running[device]
        needs_s = self._needs_s(device)
        if needs_s is None:
            return now_s + (now_s - begun_s)
        return max(begun_s + needs_s, now_s + (now_s - begun_s - needs_s))

    def _others_end_s(self, device: int, now_s: float) -> float:
        """Return when the other devices that were measured would have done all pieces that are left; infinity where there is none."""
        free = [
            (self._end_s(other, now_s) if other in self._running else now_s, needs_s)
            for other in range(len(self._seconds))
            if other != device and (needs_s := self._needs_s(other)) is not None
        ]
        if not free:
            return float("inf")
        ends = [(begin_s + needs_s, needs_s) for begin_s, needs_s in free]
        heapq.heapify(ends)
        end_s = now_s
        for _ in range(self._pieces - self._next):
            end_s, needs_s = ends[0]
            heapq.heapreplace(ends, (end_s + needs_s, needs_s))
        return end_s
