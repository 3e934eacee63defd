"""Claim: a training goes on when workers are killed, stopped and come back, and ends with the weights of the undisturbed one.

Three workers on this machine, each a process of `hetero-mtf worker`, train one of three networks in float64, by `fit` of a distributed
model or of a `Trainer`. From a seed is drawn which worker is killed or stopped and when, and after how long
it is started again or continued, if ever; at no time all are lost. The weights, the metrics of each epoch and the loss of each batch are
compared with those of one device, and every batch has to be counted once.

    python -m tools.bench.faults.campaign [--runs 100] [--json faults.json] [--resume]
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import click
import numpy as np

from hetero_mtf.runtime.ports import free_ports
from tools.bench.faults.faulty_training import NETWORKS, STEPS
from tools.results.output import Cases, Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

WORKERS, EPOCHS = 3, 8
TIMEOUT_S = 5.0  # after which a worker that hangs is lost
LIMIT_S = 300.0  # of a run
MOST_ERROR, MOST_WAIT_S = 1e-8, 10.0
KINDS = ("killed", "stopped")

FORM = TableForm(
    "faults",
    "Trainings that go on without workers",
    (
        Column("network", "network"),
        Column("by", "trained by"),
        Column("runs", "runs"),
        Column("ended", "ended", ".0f", "at_least"),
        Column("faults", "faults"),
        Column("back", "of them come back"),
        Column("error", "largest error of weights", ".1e", "at_most", MOST_ERROR),
        Column("counted", "runs with each batch counted once", ".0f", "at_least"),
        Column("wait_s", "s until the next step, median", ".1f"),
        Column("worst_s", "worst", ".1f", "at_most", MOST_WAIT_S),
        Column("left", "processes left", ".0f", "at_most"),
    ),
)


class Fault(NamedTuple):
    """What happens to a worker.

    Parameters
    ----------
    at_s : seconds after the first step.
    worker : its number.
    kind : one of `KINDS`.
    back_s : seconds after which it is started again or continued; None for never.
    """

    at_s: float
    worker: int
    kind: str
    back_s: float | None


def drawn_faults(seed: int) -> list[Fault]:
    """Return the faults of a run, at no time of which all workers are lost.

    Parameters
    ----------
    seed : of all that is drawn.
    """
    rng = np.random.default_rng(seed)
    faults: list[Fault] = []
    away: list[tuple[float, float, int]] = []
    for at_s in sorted(rng.uniform(0.0, 14.0, int(rng.integers(1, 4))).tolist()):
        kind, worker = str(rng.choice(KINDS)), int(rng.integers(WORKERS))
        back_s = None if rng.random() < 0.3 else float(rng.uniform(1.0, 12.0))
        until_s = at_s + 2 * TIMEOUT_S + 20.0 + (1e9 if back_s is None else back_s)  # a worker that starts again takes its time
        gone = {other for begin_s, end_s, other in away if begin_s <= at_s < end_s}
        if worker not in gone and len(gone) < WORKERS - 1:
            away.append((at_s, until_s, worker))
            faults.append(Fault(at_s, worker, kind, back_s))
    return faults


class Workers:
    """Processes of `hetero-mtf worker` on this machine."""

    def __init__(self) -> None:
        self.hosts = [f"127.0.0.1:{port}" for port in free_ports(WORKERS)]
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._lock = threading.Lock()
        for worker in range(WORKERS):
            self.start(worker)
        for process in self._processes.values():
            assert process.stdout is not None
            while "serves on" not in (line := process.stdout.readline()):
                if not line:
                    raise click.ClickException("a worker did not start")

    def start(self, worker: int) -> None:
        """Start a worker, again where it has ended."""
        command = [sys.executable, "-m", "hetero_mtf", "worker", "--hosts", ",".join(self.hosts), "--index", str(worker), "--allow-root"]
        variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
        with self._lock:
            self._processes[worker] = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=variables, start_new_session=True
            )

    def apply(self, fault: Fault) -> None:
        """Kill or stop a worker."""
        self._signal(fault.worker, signal.SIGKILL if fault.kind == "killed" else signal.SIGSTOP)

    def undo(self, fault: Fault) -> None:
        """Start it again, or let it go on."""
        if fault.kind == "killed":
            self._processes[fault.worker].wait()
            self.start(fault.worker)
        else:
            self._signal(fault.worker, signal.SIGCONT)

    def close(self) -> int:
        """End all, and return how many processes are left of their groups."""
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        listed = subprocess.run(["pgrep", "-fc", f"--hosts {','.join(self.hosts)}"], capture_output=True, text=True).stdout
        return int(listed.strip() or 0)

    def _signal(self, worker: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._processes[worker].pid, number)


@contextlib.contextmanager
def acting(workers: Workers, faults: Sequence[Fault], happened: list[tuple[float, Fault]]) -> Iterator[None]:
    """Let faults happen meanwhile; note when each did.

    Parameters
    ----------
    workers : the workers.
    faults : in their order.
    happened : gets the time and the fault.
    """
    ended, begun_s = threading.Event(), time.time()
    acts = [(fault.at_s, fault, False) for fault in faults]
    acts += [(fault.at_s + fault.back_s, fault, True) for fault in faults if fault.back_s is not None]

    def act() -> None:
        for at_s, fault, undone in sorted(acts, key=lambda each: each[0]):
            if ended.wait(max(0.0, begun_s + at_s - time.time())):
                return
            if undone:
                workers.undo(fault)
            else:
                happened.append((time.time(), fault))
                workers.apply(fault)

    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def trained(network: str, by: str, folder: pathlib.Path, hosts: Sequence[str] = ()) -> subprocess.Popen[str]:
    """Start a training in a process of its own, which writes figures.json and weights.npz.

    Parameters
    ----------
    network, by, hosts : as for `faulty_training`.
    folder : where it writes.
    """
    files = {"weights": str(folder / "weights.npz"), "figures": str(folder / "figures.json")}
    order = {"network": network, "by": by, "hosts": list(hosts), "timeout_s": TIMEOUT_S, "epochs": EPOCHS, **files}
    variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "HETERO_MTF_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "tools.bench.faults.faulty_training", json.dumps(order)]
    with (folder / "log").open("w") as log:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=variables)


def results(folder: pathlib.Path) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return the figures and weights that a training wrote."""
    with np.load(folder / "weights.npz") as file:
        return json.loads((folder / "figures.json").read_text()), [file[name] for name in file.files]


def run(seed: int, undisturbed: Mapping[str, tuple[dict[str, Any], list[np.ndarray]]]) -> dict[str, Any]:
    """Return what a training under drawn faults came to.

    Parameters
    ----------
    seed : of all that is drawn.
    undisturbed : network -> figures and weights of one device.
    """
    network = list(NETWORKS)[seed % len(NETWORKS)]
    by = ("trainer", "distribute")[seed // len(NETWORKS) % 2]
    faults, happened = drawn_faults(seed), list[tuple[float, Fault]]()
    record: dict[str, Any] = {"seed": seed, "network": network, "by": by}
    workers = Workers()
    try:
        with tempfile.TemporaryDirectory(prefix="hetero_mtf-faults-") as name:
            folder = pathlib.Path(name)
            process = trained(network, by, folder, workers.hosts)
            assert process.stdout is not None
            begun = process.stdout.readline() == "begun\n"
            with acting(workers, faults if begun else [], happened):
                try:
                    code = process.wait(LIMIT_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    code = process.wait()
            process.stdout.close()
            record |= {"code": code, "faults": [[at_s, *fault] for at_s, fault in happened]}
            if code != 0:
                return {**record, "failure": f"ended with {code}", "log": (folder / "log").read_text()[-2000:]}
            record |= compared(results(folder), undisturbed[network], happened)
    finally:
        record["left"] = workers.close()
    return record


def compared(
    got: tuple[dict[str, Any], list[np.ndarray]],
    wanted: tuple[dict[str, Any], list[np.ndarray]],
    happened: Sequence[tuple[float, Fault]],
) -> dict[str, Any]:
    """Return how far a training is from the undisturbed one, whether each batch was counted once, and for how long it stood still.

    Parameters
    ----------
    got, wanted : figures and weights of both.
    happened : time and fault.
    """
    figures, weights = got
    ends_s = [end_s for _, _, _, end_s in figures["batches"]]
    losses = [[loss for _, _, loss, _ in each["batches"]] for each in (figures, wanted[0])]
    counted = [(epoch, batch) for epoch, batch, _, _ in figures["batches"]] == [(e, b) for e in range(EPOCHS) for b in range(STEPS)]
    histories = [{name: np.array(values) for name, values in each["history"].items()} for each in (figures, wanted[0])]
    pairs = [*zip(weights, wanted[1], strict=True), *((histories[0][name], other) for name, other in histories[1].items())]
    pairs += [(np.array(losses[0]), np.array(losses[1]))] if counted else []
    error = max(float(np.max(np.abs(one - other)) / (np.max(np.abs(other)) + 1e-3)) for one, other in pairs)
    waits = [
        min((end_s for end_s in ends_s if end_s > at_s), default=at_s) - at_s - (TIMEOUT_S if fault.kind == "stopped" else 0.0)
        for at_s, fault in happened
    ]
    return {"error": error, "counted": counted, "waits_s": [max(0.0, wait_s) for wait_s in waits]}


def rows(cases: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return a row for each network and way of training, and one for all.

    Parameters
    ----------
    cases : as `run` returns them.
    """
    groups = sorted({(case["network"], case["by"]) for case in cases})
    found = [_row(*group, [case for case in cases if (case["network"], case["by"]) == group]) for group in groups]
    return [*found, _row("all", "-", cases)]


def _row(network: str, by: str, cases: Sequence[Mapping[str, Any]]) -> Row:
    ended = [case for case in cases if "failure" not in case]
    waits_s = [wait_s for case in ended for wait_s in case["waits_s"]]
    faults = [fault for case in cases for fault in case["faults"]]
    cells = {"network": network, "by": by, "runs": len(cases), "ended": len(ended), "faults": len(faults)}
    cells |= {"back": sum(fault[4] is not None for fault in faults), "left": sum(case["left"] for case in cases)}
    cells |= {"counted": sum(case["counted"] for case in ended)}
    if ended:
        cells |= {"error": max(case["error"] for case in ended)}
    if waits_s:
        cells |= {"wait_s": statistics.median(waits_s), "worst_s": max(waits_s)}
    return table_row(cells, wanted={"ended": float(len(cases)), "counted": float(len(cases)), "left": 0.0})


@click.command(help=__doc__)
@click.option("--runs", default=100, show_default=True, help="Trainings, by seeds from 1.")
@output_options(after="run", resumes=True)
def main(runs: int, output: Output) -> None:
    """Train under faults, and print the table."""
    cases, undisturbed = Cases(output), {}
    seeds = [seed for seed in range(1, runs + 1) if cases.find(seed=seed) is None]
    for network in NETWORKS if seeds else ():
        with tempfile.TemporaryDirectory(prefix="hetero_mtf-faults-") as name:
            folder = pathlib.Path(name)
            process = trained(network, "one device", folder)
            process.communicate()
            undisturbed[network] = results(folder)
    for seed in seeds:
        cases.measure(f"seed {seed}", lambda seed=seed: run(seed, undisturbed))  # type: ignore[misc]
    output.report(FORM, rows(cases.done))


if __name__ == "__main__":
    main()
