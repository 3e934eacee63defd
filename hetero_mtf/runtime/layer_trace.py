"""Compute seconds of each layer and pass on each device in one traced step."""

from __future__ import annotations

import dataclasses
import heapq
import re
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

_SOURCE = re.compile(r"(?:^|/)layer(\d+)_(forward|backward|update)/")  # as `hetero_mtf.mesh.sources` names operations
Key = TypeVar("Key", bound=Hashable)


@dataclasses.dataclass(frozen=True)
class LayerTrace:
    """Compute of one pass of one layer on one device in one step.

    Parameters
    ----------
    device : the device's name.
    layer : index of the layer in the network.
    step_pass : "forward", "backward" or "update".
    compute_s : seconds; where operations of several layers were computed at the same time, each has an equal part of that time.
    """

    device: str
    layer: int
    step_pass: str
    compute_s: float


def source_of(operation: str) -> tuple[int, str] | None:
    """Return the layer and pass that an operation of a trace was built for, None where it is not part of any.

    Parameters
    ----------
    operation : its name.

    Examples
    --------
    >>> source_of("train_32/layer3_backward/conv/Conv2DBackpropInput")
    (3, 'backward')
    """
    matched = _SOURCE.search(operation)
    return (int(matched[1]), matched[2]) if matched else None


def shared_out_s(intervals: Iterable[tuple[float, float, Key]]) -> dict[Key, float]:
    """Return the seconds of each key, where at every moment the time is shared equally by the intervals that contain it.

    So the seconds of all keys sum to the time in which there is at least one interval.

    Parameters
    ----------
    intervals : (start, end, key) of each, seconds.

    Notes
    -----
    One sweep over starts and stops: with H(t) the integral of 1 / (number of intervals at t), an interval has H(end) - H(start).
    O(n log n) for n intervals.

    Examples
    --------
    >>> shared_out_s([(0.0, 2.0, "a"), (1.0, 3.0, "b")])
    {'a': 1.5, 'b': 1.5}
    """
    ordered: Sequence[tuple[float, float, Key]] = sorted(intervals, key=lambda entry: entry[:2])
    seconds: dict[Key, float] = {}
    running: list[tuple[float, int, float]] = []
    now_s, shared_s = 0.0, 0.0

    def end_until(limit_s: float) -> None:
        nonlocal now_s, shared_s
        while running and running[0][0] <= limit_s:
            end_s, index, before_s = running[0]
            shared_s += (end_s - now_s) / len(running)
            now_s = end_s
            heapq.heappop(running)
            key = ordered[index][2]
            seconds[key] = seconds.get(key, 0.0) + shared_s - before_s

    for index, (start_s, end_s, _) in enumerate(ordered):
        end_until(start_s)
        if running:
            shared_s += (start_s - now_s) / len(running)
        now_s = start_s
        heapq.heappush(running, (max(start_s, end_s), index, shared_s))
    end_until(float("inf"))
    return seconds
