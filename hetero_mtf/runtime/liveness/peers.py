"""Peers: what a worker tells a program of the other workers, and what a program makes of it.

Two workers may not reach each other although a program reaches both: a step that sends a tensor between them then never ends.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.errors import WorkerError
from hetero_mtf.runtime.liveness.heartbeat import Heartbeat, Silence

_AGAIN_S = 1.0
_LATE_S = 1.5  # an answer that takes longer is told of; it comes within a fifth of a second


class Peers:
    """The other workers of a cluster, as one program wants them watched.

    Parameters
    ----------
    hosts : task -> "HOST:PORT" of each.
    limit_s : seconds of silence that are too long for the program.
    """

    def __init__(self, hosts: dict[int, str], limit_s: float) -> None:
        self._tasks = list(hosts)
        self._heartbeat = Heartbeat(list(hosts.values()), limit_s)
        self._told_s = 0.0
        self._silent = False
        self._unsent = b""

    def tell(self, connection: socket.socket) -> bool:
        """Send what is new, if anything; return whether the connection is good."""
        waiting = self._heartbeat.waiting(_LATE_S)
        now_s = time.monotonic()
        if not self._unsent and (waiting or self._silent) and now_s >= self._told_s + _AGAIN_S:
            self._told_s, self._silent = now_s, bool(waiting)
            silent = {str(self._tasks[place]): [round(part, 1) for part in silence] for place, silence in waiting.items()}
            self._unsent = json.dumps({"silent": silent}).encode() + b"\n"
        try:
            while self._unsent:
                self._unsent = self._unsent[connection.send(self._unsent) :]
        except BlockingIOError:
            pass  # the program is stopped, or busy; the rest follows
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Ask no more."""
        self._heartbeat.close()


def read_silent(document: Mapping[str, Any]) -> dict[int, Silence] | None:
    """Return for how long each other worker has not answered the one that tells it, by task; None where that is not what it tells.

    Parameters
    ----------
    document : a line of a worker.
    """
    silent = document.get("silent")
    if not isinstance(silent, dict):
        return None
    try:
        return {int(task): Silence(float(silent_s), float(unanswered_s)) for task, (silent_s, unanswered_s) in silent.items()}
    except (TypeError, ValueError):
        return None


def cut_pairs(
    late_s: Mapping[tuple[int, int], float], own_s: Sequence[float], limit_s: float, interval_s: float
) -> list[tuple[int, int]]:
    """Return which workers do not reach each other although both answer this program: who tells it, and whom it does not reach.

    A worker that is lost is silent for all. That is known here about as early, and is said instead.

    Parameters
    ----------
    late_s : (who tells it, whom it does not reach) -> seconds for which it has waited.
    own_s : (workers,) seconds since each answered this program.
    limit_s : seconds that are too long.
    interval_s : seconds between this program's own questions.

    Examples
    --------
    >>> cut_pairs({(0, 1): 31.0, (1, 2): 32.0}, [2.0, 4.0, 29.0], 30.0, 5.0)
    [(0, 1)]
    """
    answers_s = max(limit_s / 2, interval_s + 1)
    return [pair for pair, waited_s in late_s.items() if waited_s >= limit_s and all(own_s[at] < answers_s for at in pair)]


def cut_between(cut: Mapping[tuple[int, int], float], hosts: Sequence[str]) -> WorkerError | None:
    """Return the error for workers that do not reach each other, or None where there are none.

    Parameters
    ----------
    cut : (who tells it, whom it does not reach) -> seconds since the last answer, workers that this program reaches.
    hosts : (workers,) of each.
    """
    if not cut:
        return None
    clauses = []
    for (one, other), silent_s in cut.items():
        if (other, one) not in cut:
            clauses.append(f"the worker on {hosts[one]} has not reached the one on {hosts[other]} for {silent_s:.0f} s")
        elif one < other:
            longest_s = max(silent_s, cut[other, one])
            clauses.append(f"the workers on {hosts[one]} and {hosts[other]} have not reached each other for {longest_s:.0f} s")
    remedy = "this program reaches both: look for a cut link or a closed port between their machines, then open the cluster again"
    return WorkerError(", ".join(clauses), remedy, sorted({(min(pair), max(pair)) for pair in cut}))
