"""Claim: an emulated device gets its share within 2 % at the period in use, and a shorter period makes fixed work scatter less.

A process that only computes, pinned to a core, is limited by a control group at each period, or on a duty cycle. The share it is given is
processor time over windows of a second; the work is a loop that takes about 20 ms without a limit, repeated all the time. A quota has at
least 1 ms, so small shares have longer periods. What is left of a quota is lost at the end of its period, or carried over to the next. All
periods of a share take turns; a figure is the median over rounds. The process's control group has the largest weight there is, so that
other programs on its core take little from it.

    python -m tools.bench.emulation.periods [--rounds 3]
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import click

from hetero_mtf.devices.host import available_cores
from hetero_mtf.runtime.limits import cgroup
from hetero_mtf.runtime.limits.duty_cycle import PERIOD_S, DutyCycle
from tools.bench.comparison.options import rounds_option
from tools.results.output import Output, tables_option
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

SHARES = (0.2, 0.4, 0.5, 0.8)
CGROUP_US = (10_000, 5_000, 4_000, 2_000)
CYCLE_US = (10_000, 5_000, 2_000)
WORK_S, TOLERANCE = 0.020, 0.02
LOOP = """
import json, sys, time
def work(turns):
    for _ in range(turns):
        pass
def seconds(turns):
    begun = time.perf_counter()
    work(turns)
    return time.perf_counter() - begun
turns = round(100_000 * float(sys.argv[1]) / min(seconds(100_000) for _ in range(50)))
print("ready", flush=True)
for line in sys.stdin:
    end, worked, shares = time.perf_counter() + float(line), [], []
    begun, used = time.perf_counter(), time.process_time()
    while time.perf_counter() < end:
        worked.append(seconds(turns))
        passed = time.perf_counter() - begun
        if passed >= 1:
            now = time.process_time()
            shares.append((now - used) / passed)
            begun, used = time.perf_counter(), now
    print(json.dumps({"work_s": worked, "shares": shares}), flush=True)
"""


@dataclasses.dataclass(frozen=True)
class Limiting:
    """How a process is limited.

    Parameters
    ----------
    method : "cgroup" or "duty_cycle".
    period_us : wanted period.
    share : share of a core.
    carry : whether what is left of a quota is carried over to the next period.
    """

    method: str
    period_us: int
    share: float
    carry: bool = False

    @property
    def real_period_us(self) -> int:
        """The period that the share has, as a quota is at least 1 ms."""
        return cgroup.period_of(self.share, self.period_us) if self.method == "cgroup" else self.period_us


class LimitedLoop:
    """A process that computes all the time it is told to, pinned to the last core.

    Parameters
    ----------
    folder, version : of the control groups; None for a duty cycle only.
    """

    def __init__(self, folder: pathlib.Path | None, version: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", LOOP, str(WORK_S)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        os.sched_setaffinity(self.process.pid, {available_cores()[-1]})
        self._group = cgroup.CpuGroup.make(folder, version, 0) if folder is not None else None
        if self._group is not None:
            self._group.add(self.process.pid)
            file, weight = ("cpu.weight", "10000") if version == 2 else ("cpu.shares", "262144")
            (self._group.folder / file).write_text(weight)
        assert self.process.stdout is not None and self.process.stdin is not None
        self._answers, self._orders = self.process.stdout, self.process.stdin
        self._answers.readline()

    def measure(self, limiting: Limiting, seconds: float) -> dict[str, list[float]]:
        """Return the seconds of each piece of work, and the share given in each second."""
        ended = threading.Event()
        cycle = threading.Thread(target=self._cycle, args=(limiting, ended))
        if limiting.method == "cgroup":
            assert self._group is not None
            self._group.set_share(limiting.share, (limiting.period_us,) * (2 if limiting.carry else 1))
        else:
            if self._group is not None:
                self._group.set_share(1.0)
            cycle.start()
        self._orders.write(f"{seconds}\n")
        answer: dict[str, list[float]] = json.loads(self._answers.readline())
        ended.set()
        if cycle.ident is not None:
            cycle.join()
        return answer

    def close(self) -> None:
        """End the process and remove its group."""
        self.process.kill()
        self.process.wait()
        self._answers.close()
        self._orders.close()
        if self._group is not None:
            self._group.remove()

    def _cycle(self, limiting: Limiting, ended: threading.Event) -> None:
        cycle = DutyCycle(limiting.share, time.monotonic(), 1e-6 * limiting.period_us)
        while not ended.is_set():
            if cycle.switch(time.monotonic()):
                self.process.send_signal(signal.SIGCONT if cycle.running else signal.SIGSTOP)
            ended.wait(max(0.0, cycle.next_s() - time.monotonic()))
        self.process.send_signal(signal.SIGCONT)


def limitings(share: float, grouped: bool) -> Iterator[Limiting]:
    """Return what is measured of a share; periods that the smallest quota makes equal are measured once."""
    seen = set()
    for carry, period in itertools.product((False, True), CGROUP_US) if grouped else ():
        limiting = Limiting("cgroup", period, share, carry)
        if (carry, limiting.real_period_us) not in seen:
            seen.add((carry, limiting.real_period_us))
            yield limiting
    for period in CYCLE_US:
        yield Limiting("duty_cycle", period, share)


def row(limiting: Limiting, measured: Sequence[dict[str, list[float]]]) -> Row:
    """Return the row of a way to limit, from its rounds."""
    shares = list(itertools.chain.from_iterable(each["shares"] for each in measured))
    work_ms = [1e3 * seconds for each in measured for seconds in each["work_s"]]
    low, middle, high = statistics.quantiles(work_ms, n=4, method="inclusive")
    grouped = limiting.method == "cgroup"
    first_us = cgroup.period_of(limiting.share, cgroup.PERIODS_US[0]) if grouped else round(1e6 * PERIOD_S)
    used = limiting.real_period_us == first_us and limiting.carry == grouped
    error = statistics.median(shares) / limiting.share - 1
    return table_row(
        {
            "method": limiting.method,
            "share": limiting.share,
            "period_ms": limiting.real_period_us / 1e3,
            "carry": ("yes" if limiting.carry else "no") if grouped else None,
            "used": "yes" if used else "no",
            "given": statistics.median(shares),
            "error": error,
            "worst": max((each / limiting.share - 1 for each in shares), key=abs),
            "work_ms": middle,
            "quartiles_ms": [low, high],
            "spread": (high - low) / middle,
        }
    )


TABLE = TableForm(
    "emulation_periods",
    "The share that a limited process gets, and the scatter of a fixed piece of work",
    (
        Column("method", "limited by"),
        Column("share", "share", "g"),
        Column("period_ms", "period ms", "g"),
        Column("carry", "rest carried over"),
        Column("used", "in use"),
        Column("given", "share given", ".3f"),
        Column("error", "error", "+.1%"),
        Column("worst", "worst second", "+.1%"),
        Column("work_ms", "work ms", ".1f"),
        Column("quartiles_ms", "quartiles ms", ".1f"),
        Column("spread", "spread", ".0%"),
    ),
)


def measure(rounds: int, seconds: float, shares: Sequence[float]) -> list[Row]:
    """Return a row for each way to limit."""
    parent: Any = cgroup.parent_folder()
    try:
        cgroup.CpuGroup.make(*(parent or (None, 0)), 9998).remove()
    except (OSError, TypeError):
        parent = None
    loop = LimitedLoop(*(parent or (None, 0)))
    rows = []
    try:
        for share in shares:
            measured: dict[Limiting, list[dict[str, list[float]]]] = {each: [] for each in limitings(share, parent is not None)}
            for _ in range(rounds):
                for limiting, answers in measured.items():
                    answers.append(loop.measure(limiting, seconds))
            rows += [row(limiting, answers) for limiting, answers in measured.items()]
    finally:
        loop.close()
    return rows


@click.command(help=__doc__)
@rounds_option(3)
@click.option("--seconds", default=2.5, show_default=True, help="Seconds of each turn.")
@click.option("--share", "shares", multiple=True, type=float, default=SHARES, show_default=True, help="A share, several times for more.")
@tables_option
def main(rounds: int, seconds: float, shares: Sequence[float], output: Output) -> None:
    """Measure, print the table."""
    measured = measure(rounds, seconds, shares)
    output.report(TABLE, measured)


if __name__ == "__main__":
    main()
