"""What the training scripts print at their end: throughput, time an epoch, test accuracy and speed-up over the fastest device alone."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import statistics
from collections.abc import Sequence

from hetero_mtf.commands.process.run_files import beside
from hetero_mtf.report.measured import Measured
from hetero_mtf.units import seconds_text

EPOCHS_FILE = "epochs.jsonl"


@dataclasses.dataclass(frozen=True)
class TrainingSummary:
    """Figures of a training.

    Parameters
    ----------
    epoch_s, samples_per_s : of each epoch.
    accuracy : over the test samples.
    strategy : of the plan; "" where no times of its steps were kept.
    step_s : seconds of a step by the plan, beside those on each device alone; 0 where there are none.
    alone_s : device -> seconds of a step on it alone; empty where the training was not compared.
    further : rows beside them, such as the accuracy of a linear model.
    """

    epoch_s: tuple[float, ...]
    samples_per_s: tuple[float, ...]
    accuracy: float
    strategy: str = ""
    step_s: float = 0.0
    alone_s: tuple[tuple[str, float], ...] = ()
    further: tuple[tuple[str, str], ...] = ()


def training_summary(state: pathlib.Path, logs: pathlib.Path, accuracy: float, further: Sequence[tuple[str, str]] = ()) -> TrainingSummary:
    """Return the figures of a training from the files it has left.

    Parameters
    ----------
    state : what `hetero-mtf train --save` wrote; its measured times are beside it.
    logs : folder of `--log-dir`.
    accuracy : over the test samples.
    further : rows beside them.
    """
    epochs = [json.loads(line) for line in (logs / EPOCHS_FILE).read_text(encoding="utf-8").splitlines()]
    rates = tuple(float(epoch["samples_per_s"]) for epoch in epochs)
    summary = TrainingSummary(tuple(float(epoch["seconds"]) for epoch in epochs), rates, accuracy, further=tuple(further))
    path = beside(state, "measured")
    if not path.exists():
        return summary
    times = Measured.load(path)
    return dataclasses.replace(
        summary, strategy=times.strategy, step_s=times.step_s, alone_s=tuple(zip(times.devices, times.alone_s, strict=False))
    )


def summary_text(summary: TrainingSummary) -> str:
    """Return the figures as a table of two columns; the first epoch, which builds the program, counts only where it is the only one.

    Examples
    --------
    >>> alone_s = (("worker:0", 0.06), ("worker:1", 0.1))
    >>> print(summary_text(TrainingSummary((3.0, 2.0), (400.0, 600.0), 0.9, "layers", 0.04, alone_s)))
    Summary
      throughput     600 samples/s
      time an epoch  2.00 s
      test accuracy  0.900
      speed-up       1.50 times as fast as the fastest device alone (worker:0): 40.0 ms a step by strategy layers, 60.0 ms alone
    """
    counted = slice(1, None) if len(summary.epoch_s) > 1 else slice(None)
    epoch_s, rates = summary.epoch_s[counted], summary.samples_per_s[counted]
    rows = [
        ("throughput", f"{statistics.median(rates):.0f} samples/s" if rates else "no epoch was trained"),
        ("time an epoch", seconds_text(statistics.median(epoch_s)) if epoch_s else "no epoch was trained"),
        ("test accuracy", f"{summary.accuracy:.3f}"),
        *summary.further,
        ("speed-up", speed_up_text(summary)),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(["Summary", *(f"  {name:{width}}  {text}" for name, text in rows)])


def speed_up_text(summary: TrainingSummary) -> str:
    """Return how many times as fast a step by the plan is as on the fastest device alone."""
    if not summary.alone_s:
        return "not measured: give --compare, and enough steps an epoch for their times to be kept (3 at least)"
    name, alone_s = min(summary.alone_s, key=lambda pair: pair[1])
    steps = f"{seconds_text(summary.step_s)} a step by strategy {summary.strategy}, {seconds_text(alone_s)} alone"
    return f"{alone_s / summary.step_s:.2f} times as fast as the fastest device alone ({name}): {steps}"
