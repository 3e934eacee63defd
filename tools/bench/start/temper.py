"""Temper: how the steps of recorded trainings scatter, and what builds, solutions, traces and moves took, to draw from."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from tools.bench.start.start_trace import COUNTED, OVERLAPPED, SETTLING, TRACED, WATCHED, StartTrace

BLOCK = 20  # steps that are drawn in one piece, so that neighbours depend on each other as recorded
QUIET = COUNTED, WATCHED


@dataclasses.dataclass(frozen=True)
class Temper:
    """What was recorded, in ratios.

    Parameters
    ----------
    quiet : runs of steps that nothing lengthened, as ratios to the median of their plan.
    beside : "build" or "solve" -> runs of steps beside one.
    settling, traced : ratios of first steps under a plan, and of traced steps.
    builds : (seconds, size) of later builds.
    solves : seconds of solutions for each layer and device.
    moves : seconds of moves.
    others : seconds a step beside the step itself.
    first_builds : seconds of the first build for each unit of size.
    """

    quiet: tuple[tuple[float, ...], ...]
    beside: dict[str, tuple[tuple[float, ...], ...]]
    settling: tuple[float, ...]
    traced: tuple[float, ...]
    builds: tuple[tuple[float, float], ...]
    solves: tuple[float, ...]
    moves: tuple[float, ...]
    others: tuple[float, ...]
    first_builds: tuple[float, ...]

    @classmethod
    def of(cls, traces: Sequence[StartTrace]) -> Temper:
        """Return what some traces tell.

        Parameters
        ----------
        traces : at least one.
        """

        def runs(states: Sequence[str], beside: str = "") -> tuple[tuple[float, ...], ...]:
            return tuple(tuple(run) for trace in traces for run in trace.ratios(states, beside))

        def events(name: str) -> list[tuple[StartTrace, Any]]:
            return [(trace, event) for trace in traces for event in trace.events if event.name == name]

        return cls(
            runs(QUIET),
            {each: runs((OVERLAPPED,), each) for each in ("build", "solve")},
            tuple(itertools.chain.from_iterable(run for trace in traces for run in trace.ratios((SETTLING,))[1:])),
            tuple(itertools.chain.from_iterable(runs((TRACED,)))),
            tuple((event.seconds, trace.plans[event.plan].size) for trace, event in events("built")),
            tuple(event.seconds / _problem(trace) for trace, event in events("solved")),
            tuple(event.seconds for _, event in events("move")),
            tuple(trace.other_s for trace in traces),
            tuple(trace.first_build[1] / trace.first_build[0] for trace in traces),
        )

    def noise(self, generator: np.random.Generator, steps: int) -> np.ndarray:
        """Return (steps,) ratios of steps that nothing lengthens, in blocks of a recording.

        Parameters
        ----------
        generator : draws.
        steps : how many.
        """
        return _in_blocks(generator, self.quiet, steps)

    def slowed(self, generator: np.random.Generator, steps: int, beside: str) -> np.ndarray:
        """Return (steps,) ratios of steps beside a build or a solution.

        Parameters
        ----------
        generator, steps : as for `noise`.
        beside : "build" or "solve"; where none was recorded, the other.
        """
        runs = [run for run in self.beside[beside] or sum(self.beside.values(), ()) if run]
        return _in_blocks(generator, runs, steps) if runs else self.noise(generator, steps)


def _problem(trace: StartTrace) -> int:
    """Return what solving grows with: layers times devices."""
    return trace.first_build[0] * len(trace.shares)


def _in_blocks(generator: np.random.Generator, runs: Sequence[Sequence[float]], steps: int) -> np.ndarray:
    lengths = np.array([len(run) for run in runs], float)
    drawn: list[float] = []
    while len(drawn) < steps:
        run = runs[int(generator.choice(len(runs), p=lengths / lengths.sum()))]
        begin = int(generator.integers(max(1, len(run) - BLOCK + 1)))
        drawn += run[begin : begin + BLOCK]
    return np.array(drawn[:steps])


def spread_of_logs(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the median of ln(ratio), and a robust standard deviation: 1.48 times the median distance from it.

    Parameters
    ----------
    ratios : above zero; none give 0 and 0.
    """
    if not ratios:
        return 0.0, 0.0
    logs = [math.log(each) for each in ratios]
    middle = statistics.median(logs)
    return middle, 1.4826 * statistics.median(abs(each - middle) for each in logs)
