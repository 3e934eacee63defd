"""A small made-up trace: one plan on one device, then one on two devices that is faster."""

from __future__ import annotations

from tools.bench.start.start_trace import COUNTED, OVERLAPPED, SETTLING, TRACED, WATCHED, Event, StartTrace, StepRun, TracedPlan

SOLUTION = {"candidates": [[1, 0.6, 0.25]], "error": 0.25, "floor": 0.5}


def made_up_trace(watched: int = 60, noise: tuple[float, ...] = (1.0, 1.1, 0.9, 1.0, 1.0)) -> StartTrace:
    """Return the trace.

    Parameters
    ----------
    watched : steps after the last trial.
    noise : ratios that the steps which count go through.
    """

    def steps(count: int, step_s: float) -> tuple[float, ...]:
        return tuple(step_s * noise[at % len(noise)] for at in range(count))

    runs = (
        StepRun(0, SETTLING, "", (3.0,)),
        StepRun(0, COUNTED, "", steps(5, 1.0)),
        StepRun(0, TRACED, "", (1.2, 1.2)),
        StepRun(0, OVERLAPPED, "solve", (1.3,)),
        StepRun(0, OVERLAPPED, "build", (1.5, 1.5)),
        StepRun(1, SETTLING, "", (0.8,)),
        StepRun(1, COUNTED, "", steps(5, 0.6)),
        StepRun(1, WATCHED, "", steps(watched, 0.6)),
    )
    events = (
        Event(8, "solve"),
        Event(9, "solved", seconds=1.3, solution=SOLUTION),
        Event(9, "build", 1),
        Event(11, "built", 1, 3.0),
        Event(11, "move", 1, 0.5),
        Event(17, "watch"),
    )
    plans = TracedPlan("single", (0,), 20, 1.1, 1.1), TracedPlan("layers", (0, 1), 40, 0.7, 0.6)
    layers = ((0, 0, 1, "forward", "alone", 1.0), (0, 0, 1, "backward", "alone", 0.9), (0, 0, 2, "forward", "alone", 0.5))
    several = ((1, 0, 1, "forward", "units", 1.2), (1, 1, 1, "forward", "units", 1.3), (1, 0, 2, "forward", "samples", 0.6))
    seconds = sum(sum(run.seconds) for run in runs)
    count = sum(len(run.seconds) for run in runs)
    return StartTrace("vgg8", (1.0, 0.5), count, 0.4, (20, 3.0), plans, runs, events, layers + several, 15.0, 15.0 + seconds - 3.0 + 0.5)
