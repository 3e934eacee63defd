"""Claim: a training that begins on one device and tries plans as its own steps loses nothing beside one device, and soon gains.

Everything counts, from the start of the process to the end of the training, without a saved profile: our training whose steps try plans,
ours that measures first, ours on one device, ours with the best plan that was found given from the start, and Keras's `fit` in a process
that is pinned to one core. The length of a training is given in seconds of one device, without its start. Only a training that tries plans
looks at its length: it is run for each; the others are run for the longest, and shorter ones end where those had as many steps.
Arrangements take turns; a figure is the median over rounds. Measured first is run in the first round only.

    python -m tools.bench.start.time_to_train [--network vgg8] [--seconds 60] [--shares 1.0,0.5]

`--network drawn-SEED` trains a network drawn by a seed, `--drawn 2` two that are drawn by the last commit.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import click

from tools.bench.comparison.commit_seeds import last_commit, seed_of
from tools.bench.comparison.options import rounds_option, shares_option
from tools.bench.start.start_tables import GAINS, TABLE, gain_row, rounds_text, rows
from tools.bench.start.start_tasks import DRAWN, is_network
from tools.bench.start.started_training import BEST, KERAS, MEASURES, ONE
from tools.results.output import Cases, Output, output_options

PROBE_STEPS = 30
TRIED, MEASURED_FIRST = MEASURES
LENGTHS = (30.0, 60.0, 120.0, 300.0)
ROOT = pathlib.Path(__file__).resolve().parents[3]
PLANS = pathlib.Path("runs") / "time_to_train"  # files of the last plan of each training


def run(network: str, arrangement: str, shares: Sequence[float], steps: int, **files: pathlib.Path) -> dict[str, Any]:
    """Return the seconds of a training in a process of its own, whose folder of profiles is empty.

    Parameters
    ----------
    network, arrangement, shares, steps : as for `started_training`.
    files : "trace", "plan" and "keeps", as there.
    """
    with tempfile.TemporaryDirectory(prefix="hetero_mtf-start-") as folder:
        order = {"network": network, "arrangement": arrangement, "shares": list(shares), "steps": steps, "begin_s": time.time()}
        order |= {name: str(path) for name, path in files.items()}
        command = [sys.executable, "-m", "tools.bench.start.started_training", json.dumps(order)]
        variables = {**os.environ, "HETERO_MTF_CACHE": folder, "TF_CPP_MIN_LOG_LEVEL": "3"}
        ended = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def trace_file(folder: pathlib.Path, network: str, shares: Sequence[float], seconds: float, number: int) -> pathlib.Path:
    """Return the file of a trace in a folder, which is made where it is missing.

    Parameters
    ----------
    folder : of the traces.
    network, shares, seconds : what was trained, on which devices, and how long; they are in the name.
    number : of the trace, from 1.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{network}-{'-'.join(map(str, shares))}-{seconds:g}-{number}.json"


class Runs:
    """The trainings of one network on one cluster; those of an earlier call are not run again.

    Parameters
    ----------
    cases : where they are recorded, one case each.
    network, shares : what is trained, and on which devices.
    folder : of the traces of trainings that try plans; None for none.
    """

    def __init__(self, cases: Cases, network: str, shares: Sequence[float], folder: pathlib.Path | None) -> None:
        self._cases, self._network, self._shares, self._folder = cases, network, list(shares), folder
        self._step_s = self._case("probe", 0.0, 1, lambda: self._run(ONE, PROBE_STEPS))["step_s"]

    def measure(self, arrangement: str, seconds: float, number: int) -> dict[str, Any]:
        """Return the figures of a training.

        Parameters
        ----------
        arrangement : which.
        seconds : how long it would take one device.
        number : of the round, from 1.
        """
        steps = max(PROBE_STEPS, round(seconds / self._step_s))
        files: dict[str, pathlib.Path] = {}
        if arrangement in MEASURES:
            files["keeps"] = self._plan_file(arrangement, seconds, number)
        if arrangement == TRIED and self._folder is not None:
            files["trace"] = trace_file(self._folder, self._network, self._shares, seconds, number)
        if arrangement == BEST:
            files["plan"] = self._best_plan()
        return self._case(arrangement, seconds, number, lambda: self._run(arrangement, steps, **files))

    def _run(self, arrangement: str, steps: int, **files: pathlib.Path) -> dict[str, Any]:
        return run(self._network, arrangement, self._shares, steps, **files)

    def _case(self, arrangement: str, seconds: float, number: int, measure: Any) -> dict[str, Any]:
        key = {"network": self._network, "shares": self._shares, "arrangement": arrangement, "seconds": seconds, "round": number}
        title = f"{self._network}, {arrangement}, {seconds:g} s, round {number}"
        return self._cases.find(**key) or self._cases.measure(title, lambda: {**key, **measure()})

    def _plan_file(self, arrangement: str, seconds: float, number: int) -> pathlib.Path:
        folder = PLANS / f"{self._network}-{'-'.join(map(str, self._shares))}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{arrangement.replace(' ', '_')}-{seconds:g}-{number}.json"

    def _best_plan(self) -> pathlib.Path:
        """Return the file of the plan with the shortest last steps of all trainings so far."""
        own = [case for case in self._cases.done if (case["network"], case["shares"]) == (self._network, self._shares)]
        tried = [case for case in own if case["arrangement"] in MEASURES]
        files = [(case["step_s"], self._plan_file(case["arrangement"], case["seconds"], case["round"])) for case in tried]
        return min((entry for entry in files if entry[1].exists()), key=lambda entry: entry[0])[1]


@click.command(help=__doc__)
@click.option("--network", "names", multiple=True, help="vgg8, unet3d, resnet18, digits, drawn-SEED, ...; several times for more.")
@click.option("--drawn", default=0, help="Networks that are drawn by the last commit, besides.")
@click.option("--seconds", "lengths", multiple=True, type=float, default=LENGTHS, help="What the steps take one device.")
@shares_option
@rounds_option(3)
@click.option("--traces", "folder", type=click.Path(path_type=pathlib.Path), help="Folder for a trace of each training that tries plans.")
@output_options(after="training", resumes=True)
def main(
    names: Sequence[str],
    drawn: int,
    lengths: Sequence[float],
    shares: Sequence[float],
    rounds: int,
    folder: pathlib.Path | None,
    output: Output,
) -> None:
    """Train, and print the tables."""
    drawn_names = [f"{DRAWN}{seed_of(last_commit(ROOT), number):08x}" for number in range(drawn)]
    unknown = [name for name in names if not is_network(name)]
    if unknown:
        raise click.UsageError(f"there is no network {unknown[0]}")
    cases, longest = Cases(output), max(lengths)
    for name in [*(names or (() if drawn else ("vgg8", "unet3d"))), *drawn_names]:
        runs = Runs(cases, name, shares, folder)
        for number in range(1, rounds + 1):
            for seconds in lengths:
                runs.measure(TRIED, seconds, number)
            once = [MEASURED_FIRST] if number == 1 else []  # what is shown beside the others, and wants nothing
            for arrangement in (ONE, *once, *([KERAS] if max(shares) == 1.0 else [])):
                runs.measure(arrangement, longest, number)
        for number in range(1, rounds + 1):
            runs.measure(BEST, longest, number)
        _report(output.publish, cases)
    _report(output.report, cases)


def _report(report: Any, cases: Cases) -> None:
    measured = [case for case in cases.done if case["arrangement"] not in ("probe", *([MEASURED_FIRST] if case["round"] > 1 else []))]
    subjects = list(dict.fromkeys((case["network"], tuple(case["shares"])) for case in measured))
    of_subjects = [[case for case in measured if (case["network"], tuple(case["shares"])) == subject] for subject in subjects]
    rounds = [max(case["round"] for case in subject) for subject in of_subjects]
    note = rounds_text(min(rounds), max(rounds), MEASURED_FIRST)
    report(TABLE, [row for subject in of_subjects for row in rows(subject)], [note])
    report(GAINS, [row for subject in of_subjects for row in gain_row(subject)], [note])


if __name__ == "__main__":
    main()
