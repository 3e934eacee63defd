"""Claim: a training goes on when workers are killed, stopped and come back, and ends with the weights of the undisturbed one.

Three workers on this machine, each a process of `hetero-mtf worker`, train one of three networks in float64, by `fit` of a distributed
model or of a `Trainer`, and save their state on the way. From a seed is drawn which worker is killed or stopped and when: after some
seconds, or while devices are measured, the state is saved or mirrored, a plan is tried, or training moves to another one; and after how
long it is started again or continued, if ever; at no time all are lost. The weights, the metrics of each epoch and the loss of each
batch are compared with those of one device, and every batch has to be counted once. A wait for the next step counts from the fault, where
a worker hangs from its detection; where another fault comes before that step, the bound is for what follows the last one.

With --trying, all trainings are of the network for which another plan is tried soon after the first step, and a fault comes then.

    python -m tools.bench.faults.campaign [--runs 100] [--trying] [--json faults.json] [--resume]
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
import numpy as np

from tools.bench.faults.faulty_training import NETWORKS, STEPS
from tools.bench.faults.faulty_workers import (
    KINDS,
    LIMIT_S,
    MEASURING,
    MOMENT_S,
    MOMENTS,
    TIMEOUT_S,
    TRYING,
    WORKERS,
    Fault,
    Happened,
    Said,
    Workers,
    acting,
)
from tools.results.output import Cases, Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

EPOCHS = 8
MOST_ERROR, MOST_WAIT_S = 1e-8, 10.0
TRIES = "images"  # the network for which another plan than the first is tried

FORM = TableForm(
    "faults",
    "Trainings that go on without workers",
    (
        Column("network", "network"),
        Column("by", "trained by"),
        Column("first", "first fault"),
        Column("runs", "runs"),
        Column("ended", "ended", ".0f", "at_least"),
        Column("faults", "faults"),
        Column("back", "of them come back"),
        Column("moments", f"while {', '.join(MOMENTS)}"),
        Column("error", "largest error of weights", ".1e", "at_most", MOST_ERROR),
        Column("counted", "runs with each batch counted once", ".0f", "at_least"),
        Column("wait_s", "s until the next step, median", ".1f"),
        Column("worst_s", "worst", ".1f", "at_most", MOST_WAIT_S),
        Column("twofold", "waits in which another fault happened"),
        Column("twofold_s", "worst of them, with both", ".1f"),
        Column("left", "processes left", ".0f", "at_most"),
    ),
    case=("first",),
)


def drawn_faults(seed: int, kinds: Sequence[str] = KINDS, trying: bool = False) -> list[Fault]:
    """Return the faults of a run, at no time of which all workers are lost.

    Parameters
    ----------
    seed : of all that is drawn.
    kinds : of the faults.
    trying : whether the first one comes while a plan is tried.
    """
    rng = np.random.default_rng(seed)
    faults: list[Fault] = []
    away: list[tuple[float, float, int]] = []
    for at_s in sorted(rng.uniform(0.0, 14.0, int(rng.integers(1, 4))).tolist()):
        kind, worker, moment = str(rng.choice(kinds)), int(rng.integers(WORKERS)), str(rng.choice(["", "", *MOMENTS]))
        if trying and not faults:
            moment, at_s = TRYING, 0.0
        elif moment == MEASURING:  # before the first step
            moment, at_s = (moment, 0.0) if not faults else ("", at_s)
        back_s = None if rng.random() < 0.3 else float(rng.uniform(1.0, 12.0))
        until_s = at_s + 2 * TIMEOUT_S + 20.0 + MOMENT_S + (1e9 if back_s is None else back_s)  # a worker that starts again takes its time
        gone = {other for begin_s, end_s, other in away if begin_s <= at_s < end_s}
        if worker not in gone and len(gone) < WORKERS - 1:
            away.append((at_s, until_s, worker))
            faults.append(Fault(at_s, worker, kind, back_s, moment))
    return faults


def trained(network: str, by: str, folder: pathlib.Path, hosts: Sequence[str] = (), measure: str = "steps") -> subprocess.Popen[str]:
    """Start a training in a process of its own, which writes figures.json and weights.npz.

    Parameters
    ----------
    network, by, hosts, measure : as for `faulty_training`.
    folder : where it writes.
    """
    files = {"weights": str(folder / "weights.npz"), "figures": str(folder / "figures.json")}
    order = {"network": network, "by": by, "hosts": list(hosts), "timeout_s": TIMEOUT_S, "epochs": EPOCHS, "measure": measure, **files}
    variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "HETERO_MTF_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "tools.bench.faults.faulty_training", json.dumps(order)]
    with (folder / "log").open("w") as log:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=variables)


def results(folder: pathlib.Path) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return the figures and weights that a training wrote."""
    with np.load(folder / "weights.npz") as file:
        return json.loads((folder / "figures.json").read_text()), [file[name] for name in file.files]


def run(
    seed: int,
    undisturbed: Mapping[str, tuple[dict[str, Any], list[np.ndarray]]],
    start: Callable[[], Workers] = Workers,
    kinds: Sequence[str] = KINDS,
    trying: bool = False,
) -> dict[str, Any]:
    """Return what a training under drawn faults came to.

    Parameters
    ----------
    seed : of all that is drawn.
    undisturbed : network -> figures and weights of one device.
    start : starts workers.
    kinds, trying : as for `drawn_faults`.
    """
    network = TRIES if trying else list(NETWORKS)[seed % len(NETWORKS)]
    by = ("trainer", "distribute")[seed // len(NETWORKS) % 2]
    faults, happened = drawn_faults(seed, kinds, trying), list[Happened]()
    measure = "first" if any(fault.moment == MEASURING for fault in faults) else "steps"
    record: dict[str, Any] = {"seed": seed, "network": network, "by": by}
    workers = start()
    try:
        with tempfile.TemporaryDirectory(prefix="hetero_mtf-faults-") as name:
            folder = pathlib.Path(name)
            process = trained(network, by, folder, workers.hosts, measure)
            said = Said(process)
            with acting(workers, faults, happened, said):
                try:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(LIMIT_S)
                finally:  # also where the campaign is ended meanwhile
                    process.kill()
                    code = process.wait()
                said.join()
            assert process.stdout is not None
            process.stdout.close()
            record |= {"code": code, "faults": [[each.time_s, *each.fault, each.moment] for each in happened]}
            if code != 0:
                log = [*said.lines[-20:], (folder / "log").read_text()[-2000:]]
                return {**record, "failure": f"ended with {code}", "log": log}
            record |= compared(results(folder), undisturbed[network], happened)
    finally:
        record["left"] = workers.close()
    return record


def compared(
    got: tuple[dict[str, Any], list[np.ndarray]],
    wanted: tuple[dict[str, Any], list[np.ndarray]],
    happened: Sequence[Happened],
) -> dict[str, Any]:
    """Return how far a training is from the undisturbed one, whether each batch was counted once, and for how long it stood still.

    Parameters
    ----------
    got, wanted : figures and weights of both.
    happened : the faults.
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
        min((end_s for end_s in ends_s if end_s > each.time_s), default=each.time_s)
        - each.time_s
        - (0.0 if each.fault.kind == "killed" else TIMEOUT_S)
        for each in happened
        if each.moment != MEASURING  # which is begun again on those that are left, before the first step
    ]
    return {"error": error, "counted": counted, "waits_s": [max(0.0, wait_s) for wait_s in waits]}


def waits_s(case: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    """Return the seconds until the next step, of faults that no other one follows before it, and of those that one does.

    Parameters
    ----------
    case : as `run` returns it.
    """
    faults = [(at_s, 0.0 if kind == "killed" else TIMEOUT_S) for at_s, _, _, kind, _, _, moment in case["faults"] if moment != MEASURING]
    parts: tuple[list[float], list[float]] = ([], [])
    for (at_s, detected_s), wait_s in zip(faults, case["waits_s"], strict=True):
        parts[any(at_s < other_s < at_s + detected_s + wait_s for other_s, _ in faults)].append(wait_s)
    return parts


def rows(cases: Sequence[Mapping[str, Any]], first: str) -> list[Row]:
    """Return a row for each network and way of training, and one for all.

    Parameters
    ----------
    cases : as `run` returns them.
    first : how the first fault of each is called.
    """
    groups = sorted({(case["network"], case["by"]) for case in cases})
    found = [_row(*group, first, [case for case in cases if (case["network"], case["by"]) == group]) for group in groups]
    return [*found, _row("all", "-", first, cases)]


def _row(network: str, by: str, first: str, cases: Sequence[Mapping[str, Any]]) -> Row:
    cells, wanted = figures(cases)
    return table_row({"network": network, "by": by, "first": first, **cells}, wanted)


def figures(cases: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, float | None]]:
    """Return the figures of some runs, and what is wanted of them.

    Parameters
    ----------
    cases : as `run` returns them.
    """
    ended = [case for case in cases if "failure" not in case]
    single_s, twofold_s = ([wait_s for case in ended for wait_s in waits_s(case)[part]] for part in (0, 1))
    faults = [fault for case in cases for fault in case["faults"]]
    cells: dict[str, Any] = {"runs": len(cases), "ended": len(ended), "faults": len(faults)}
    cells |= {"moments": "/".join(str(sum(fault[-1] == moment for fault in faults)) for moment in MOMENTS)}
    cells |= {"back": sum(fault[4] is not None for fault in faults), "left": sum(case["left"] for case in cases)}
    cells |= {"counted": sum(case["counted"] for case in ended), "twofold": len(twofold_s)}
    if ended:
        cells |= {"error": max(case["error"] for case in ended)}
    if single_s:
        cells |= {"wait_s": statistics.median(single_s), "worst_s": max(single_s)}
    if twofold_s:
        cells |= {"twofold_s": max(twofold_s)}
    return cells, {"ended": float(len(cases)), "counted": float(len(cases)), "left": 0.0}


def undisturbed_trainings(networks: Sequence[str]) -> dict[str, tuple[dict[str, Any], list[np.ndarray]]]:
    """Return the figures and weights of each network that one device has trained."""
    undisturbed = {}
    for network in networks:
        with tempfile.TemporaryDirectory(prefix="hetero_mtf-faults-") as name:
            folder = pathlib.Path(name)
            trained(network, "one device", folder).communicate()
            undisturbed[network] = results(folder)
    return undisturbed


def measured(
    runs: int, output: Output, start: Callable[[], Workers] = Workers, kinds: Sequence[str] = KINDS, trying: bool = False
) -> Sequence[Mapping[str, Any]]:
    """Return what trainings under faults came to, those that were there before among them.

    Parameters
    ----------
    runs : trainings, by seeds from 1.
    output : of the command.
    start, kinds, trying : as for `run`.
    """
    cases = Cases(output)
    seeds = [seed for seed in range(1, runs + 1) if cases.find(seed=seed) is None]
    undisturbed = undisturbed_trainings([TRIES] if trying else list(NETWORKS)) if seeds else {}
    for seed in seeds:
        cases.measure(f"seed {seed}", lambda seed=seed: run(seed, undisturbed, start, kinds, trying))  # type: ignore[misc]
    return cases.done


@click.command(help=__doc__)
@click.option("--runs", default=100, show_default=True, help="Trainings, by seeds from 1.")
@click.option("--trying", is_flag=True, help="A fault comes while a plan is tried, first of all.")
@output_options(after="run", resumes=True)
def main(runs: int, trying: bool, output: Output) -> None:
    """Train under faults, and print the table."""
    output.report(FORM, rows(measured(runs, output, trying=trying), f"while {TRYING}" if trying else "drawn"))


if __name__ == "__main__":
    main()
