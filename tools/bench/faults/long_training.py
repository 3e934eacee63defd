"""Claim: an elastic training with a fault every five minutes keeps its memory, and without a fault the speed of one that is not elastic.

Three workers on this machine, each a process of `hetero-mtf worker`, train by a measured plan for all three. Every five minutes one of
them is killed or stopped in turn, and started again or continued 20 s later. Its memory is that of the program in the last minutes before
a fault, its samples/s are beside those of a training before that is not elastic. As both may move to other plans, elastic trainings and
others also take turns under one plan, without faults.

    python -m tools.bench.faults.long_training [--minutes 75] [--json long_training.json] [--resume]
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click
import keras
import numpy as np

import hetero_mtf as hm
from tools.bench.faults.faulty_training import BATCH, STEPS, task
from tools.bench.faults.faulty_workers import KINDS, TIMEOUT_S, WORKERS, Fault, Workers
from tools.results.output import Cases, Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

PERIOD_S, BACK_S = 300.0, 20.0
QUIET_S = 150.0  # before a fault, that are compared
ALONE_MINUTES = 10.0  # of a training that is not elastic
WINDOW_S = 5.0
ROUNDS, EPOCHS, FIRST_STEPS = 7, 5, 20  # of trainings that take turns; steps of each that do not count
MOST_PART = 0.02
NETWORK = "images"

FORM = TableForm(
    "long_training",
    "An elastic training with a fault every five minutes",
    (
        Column("training", "training"),
        Column("minutes", "minutes", ".0f"),
        Column("faults", "faults"),
        Column("samples_s", "samples/s between faults", ".0f"),
        Column("spread", "spread", ".3f"),
        Column("speed", "of those not elastic", ".3f", "at_least", 1.0 - MOST_PART),
        Column("of_before", "of those of the training before", ".2f"),
        Column("memory_mib", "MiB of the program", ".0f"),
        Column("growth", "growth of it from the first to the last fault", ".3f", "at_most", MOST_PART),
    ),
)


class Windows(keras.callbacks.Callback):  # type: ignore[misc]
    """Notes samples/s and memory every few seconds, and ends the training in time.

    Parameters
    ----------
    end_s : seconds since 1970.
    """

    def __init__(self, end_s: float) -> None:
        super().__init__()
        self._end_s, self._begun_s, self._batches = end_s, time.time(), 0
        self.noted: list[tuple[float, float, int]] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Count the batch."""
        self._batches += 1
        now_s = time.time()
        if now_s >= self._begun_s + WINDOW_S:
            self.noted.append((now_s, self._batches * BATCH / (now_s - self._begun_s), _resident_bytes()))
            self._begun_s, self._batches = now_s, 0
        if now_s >= self._end_s:
            self.model.stop_training = True


def _resident_bytes() -> int:
    """Return the resident memory of this process."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def train(order: Mapping[str, Any]) -> None:
    """Train as ordered, and write what was noted.

    Parameters
    ----------
    order : hosts, elastic, minutes, and the file for what is noted.
    """
    model, x, y = task(NETWORK)
    with hm.Cluster.hosts(order["hosts"], worker_timeout_s=TIMEOUT_S) as cluster:
        profile = hm.calibrate(cluster, model, BATCH, optimizer=model.optimizer, budget_s=40.0)
        plan = hm.plan(profile, strategy="batch")
        with hm.Trainer(model, plan, cluster, profile=profile, rebalance=True, elastic=order["elastic"]) as trainer:
            windows = Windows(time.time() + 60.0 * order["minutes"])
            print("begun", flush=True)
            trainer.fit(x, y, batch_size=BATCH, epochs=10**9 // STEPS, shuffle=False, verbose=0, callbacks=[windows])
    pathlib.Path(order["file"]).write_text(json.dumps(windows.noted))


def take_turns(order: Mapping[str, Any]) -> None:
    """Train by turns elastically and not, under one plan, and write the samples/s of each.

    Parameters
    ----------
    order : hosts, and the file for what is noted.
    """
    model, x, y = task(NETWORK)
    noted: list[tuple[bool, float]] = []
    with hm.Cluster.hosts(order["hosts"], worker_timeout_s=TIMEOUT_S) as cluster:
        profile = hm.calibrate(cluster, model, BATCH, optimizer=model.optimizer, budget_s=40.0)
        plan = hm.plan(profile, strategy="batch")
        for turn in range(2 * ROUNDS):
            elastic = turn % 4 in (1, 2)
            with hm.Trainer(model, plan, cluster, profile=profile, rebalance=False, elastic=elastic) as trainer:
                ends = Ends()
                trainer.fit(x, y, batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0, callbacks=[ends])
            counted_s = ends.at_s[FIRST_STEPS:]
            noted.append((elastic, BATCH * (len(counted_s) - 1) / (counted_s[-1] - counted_s[0])))
    pathlib.Path(order["file"]).write_text(json.dumps(noted))


class Ends(keras.callbacks.Callback):  # type: ignore[misc]
    """Notes when batches end.

    Attributes
    ----------
    at_s : (batches,) seconds.
    """

    def __init__(self) -> None:
        super().__init__()
        self.at_s: list[float] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Note when it ends."""
        self.at_s.append(time.perf_counter())


def turns() -> list[tuple[bool, float]]:
    """Return whether trainings that took turns were elastic, and their samples/s."""
    workers = Workers()
    try:
        with tempfile.TemporaryDirectory(prefix="hetero_mtf-long-") as name:
            file = pathlib.Path(name) / "noted.json"
            with _started({"hosts": workers.hosts, "file": str(file), "turns": True}, name) as process:
                if process.wait() != 0:
                    raise click.ClickException("the trainings that take turns failed")
            return [(elastic, speed) for elastic, speed in json.loads(file.read_text())]
    finally:
        workers.close()


def _started(order: Mapping[str, Any], cache: str) -> subprocess.Popen[str]:
    """Start a process of this module that does as it is ordered."""
    variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "HETERO_MTF_CACHE": cache}
    command = [sys.executable, "-m", "tools.bench.faults.long_training", "--order", json.dumps(order)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables)


def run(elastic: bool, minutes: float) -> dict[str, Any]:
    """Return what a training noted, and when faults happened.

    Parameters
    ----------
    elastic : whether it is elastic, with faults.
    minutes : how long it trains.
    """
    workers, faults = Workers(), list[float]()
    try:
        with tempfile.TemporaryDirectory(prefix="hetero_mtf-long-") as name:
            file = pathlib.Path(name) / "noted.json"
            order = {"hosts": workers.hosts, "elastic": elastic, "minutes": minutes, "file": str(file)}
            process = _started(order, name)
            assert process.stdout is not None
            process.stdout.readline()
            begun_s = time.time()
            while elastic and (len(faults) + 1) * PERIOD_S < 60.0 * minutes:
                if _ended(process, begun_s + (len(faults) + 1) * PERIOD_S - time.time()):
                    break
                fault = Fault(0.0, len(faults) % WORKERS, KINDS[len(faults) % len(KINDS)], BACK_S)
                faults.append(time.time())
                workers.apply(fault)
                if _ended(process, BACK_S):
                    break
                workers.undo(fault)
            code = process.wait()
            process.stdout.close()
            noted = json.loads(file.read_text()) if code == 0 else []
    finally:
        left = workers.close()
    return {"elastic": elastic, "minutes": minutes, "code": code, "faults": faults, "noted": noted, "left": left, "begun_s": begun_s}


def _ended(process: subprocess.Popen[str], wait_s: float) -> bool:
    """Return whether a training has ended, after some seconds at most."""
    try:
        process.wait(max(0.0, wait_s))
        return True
    except subprocess.TimeoutExpired:
        return False


def quiet(record: Mapping[str, Any]) -> list[tuple[float, list[tuple[float, float, int]]]]:
    """Return the windows of the last minutes before each fault; of a training without faults those after its first minutes.

    Parameters
    ----------
    record : as `run` returns it.
    """
    ends = record["faults"] or [record["begun_s"] + 60.0 * record["minutes"]]
    length_s = QUIET_S if record["faults"] else 60.0 * record["minutes"] - 120.0

    def before(end_s: float) -> list[tuple[float, float, int]]:
        return [window for window in record["noted"] if end_s - length_s < window[0] - WINDOW_S and window[0] < end_s]

    return [(end_s, before(end_s)) for end_s in ends]


def rows(records: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return a row for each training.

    Parameters
    ----------
    records : as `run` returns them, at least one of them not elastic.
    """
    parts = [[windows for _, windows in quiet(record) if windows] for record in records]
    speeds = [[speed for windows in each for _, speed, _ in windows] for each in parts]
    plain = [speed for record, each in zip(records, speeds) if not record["elastic"] for speed in each]
    found = []
    for record, each, windows in zip(records, speeds, parts):
        cells: dict[str, Any] = {"training": "elastic" if record["elastic"] else "not elastic", "minutes": record["minutes"]}
        cells["faults"] = len(record["faults"])
        if each:
            middle = statistics.median(each)
            quarters = np.percentile(each, [25, 75])
            cells |= {"samples_s": middle, "spread": float(quarters[1] - quarters[0]) / middle}
            cells["memory_mib"] = statistics.median(memory for _, _, memory in windows[-1]) / 2**20
        if each and record["elastic"] and plain:
            cells["of_before"] = statistics.median(each) / statistics.median(plain)
            first, last = (statistics.median(memory for _, _, memory in windows[at]) for at in (0, -1))
            cells["growth"] = last / first - 1.0
        found.append(table_row(cells))
    return found


def turn_rows(noted: Sequence[tuple[bool, float]]) -> list[Row]:
    """Return a row for the trainings by turns that were not elastic, and one for those that were.

    Parameters
    ----------
    noted : as `turns` returns them.
    """
    speeds = {elastic: [speed for other, speed in noted if other == elastic] for elastic in (False, True)}
    found = []
    for elastic, of_these in speeds.items():
        quarters = np.percentile(of_these, [25, 75])
        cells: dict[str, Any] = {"training": f"by turns, {'' if elastic else 'not '}elastic", "faults": 0}
        cells |= {"samples_s": statistics.median(of_these), "spread": float(quarters[1] - quarters[0]) / statistics.median(of_these)}
        if elastic:
            cells["speed"] = statistics.median(speeds[True]) / statistics.median(speeds[False])
        found.append(table_row(cells))
    return found


def _part(part: str, elastic: bool, minutes: float) -> dict[str, Any]:
    return {"part": part, **run(elastic, minutes)}


@click.command(help=__doc__)
@click.option("--minutes", default=75.0, show_default=True, help="Minutes of the elastic training.")
@click.option("--order", hidden=True)
@output_options(after="training", resumes=True)
def main(minutes: float, order: str | None, output: Output) -> None:
    """Train for long, and print the table."""
    if order is not None:
        given = json.loads(order)
        (take_turns if given.get("turns") else train)(given)
        return
    cases = Cases(output)
    by_turns = cases.find(part="turns") or cases.measure("turns", lambda: {"part": "turns", "noted": turns()})
    records = [
        cases.find(part=part) or cases.measure(part, functools.partial(_part, part, elastic, length))
        for part, elastic, length in (("before", False, ALONE_MINUTES), ("elastic", True, minutes))
    ]
    output.report(FORM, [*turn_rows(by_turns["noted"]), *rows(records)])


if __name__ == "__main__":
    main()
