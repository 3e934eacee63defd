"""Claim: images/s of ResNet-50 on V100 and P100 together, measured by others, are predicted from runs on one kind of GPU alone.

The runs are TensorFlow's, with batches of 8192 images in unequal parts (VirtualFlow, MLSys 2022). Fetch them:
git clone --branch 4-10-het https://github.com/andrewor14/tf-logs runs/others/tf-logs. From the runs on one kind follow the seconds of an
image on each, and those of sending the gradients once over the link of a host: n images on each GPU take n t + 2 (h - 1) / h s on h
hosts, as in a ring of hosts. The predictions of the mixed runs are those of a plan that splits the batch; nothing is fitted to them.

The first prediction took the exchange to need the same seconds on any number of hosts. The runs on one kind cross two hosts, the mixed
ones four, as their logs say (HOSTS): so a ring has half as much again to send. The seconds of two hosts are those of a link of 1 Gbit/s.

    python -m tools.bench.others.virtualflow [--folder DIR]
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import statistics
from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from hetero_mtf.errors import DataError, HeteroError
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.stage_from_layouts import full_stage, split_by_samples, unsplit_stage
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.strategies.batch import best_batch
from tools.bench.others.measured_chain import MeasuredDevice, MeasuredLayer, chain_profile
from tools.results.output import Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

FOLDER = pathlib.Path("runs/others/tf-logs")
BATCH = 8192
OFF, MEAN_OFF = 0.15, 0.06
WEIGHTS, IMAGE = 25_557_032, 224 * 224 * 3  # of ResNet-50
_FREE_BYTES_PER_S = 1e18  # what exchanging takes is in `Homogeneous.exchange_s`
_RUN = re.compile(r"^(\w+): ([\d.]+) img/s(?: \(([^)]*)\))?$")
_SPLIT = re.compile(r"^HETEROGENEOUS_SPLIT=([\d:]+)$", re.MULTILINE)
_REMEDY = f"fetch the branch 4-10-het of https://github.com/andrewor14/tf-logs into {FOLDER}, or name another --folder"

FORM = TableForm(
    "others_virtualflow",
    "ResNet-50 on V100 and P100 in TensorFlow, measured by others, and predicted",
    (
        Column("run", "run"),
        Column("gpus", "GPUs"),
        Column("split", "images of each"),
        Column("measured", "measured images/s", ".0f"),
        Column("predicted", "predicted images/s", ".0f"),
        Column("step_s", "measured s", ".2f"),
        Column("predicted_step_s", "predicted s", ".2f"),
        Column("first_error", "error at first", "+.1%"),
        Column("error", "error", "+.1%", "within", OFF),
        Column("own_split", "our split"),
        Column("own", "images/s predicted for it", ".0f"),
        Column("alone", "2 V100 alone, measured", ".0f"),
    ),
)


@dataclasses.dataclass(frozen=True)
class TimedRun:
    """A run and what it reached.

    Parameters
    ----------
    name : as in the summary.
    gpus : (GPUs,) kind of each.
    images_per_s : measured.
    split : (GPUs,) images of a batch that each takes.
    hosts : how many hosts the GPUs are in.
    """

    name: str
    gpus: tuple[str, ...]
    images_per_s: float
    split: tuple[int, ...]
    hosts: int = 2

    @property
    def is_mixed(self) -> bool:
        """Whether it has several kinds of GPUs."""
        return len(set(self.gpus)) > 1

    @property
    def step_s(self) -> float:
        """Measured seconds of a step."""
        return sum(self.split) / self.images_per_s


@dataclasses.dataclass(frozen=True)
class Homogeneous:
    """What the runs on one kind of GPU tell.

    Parameters
    ----------
    image_s : kind of GPU -> seconds of an image.
    sent_s : seconds of sending the gradients once over the link of a host.
    """

    image_s: dict[str, float]
    sent_s: float

    def exchange_s(self, hosts: int) -> float:
        """Return the seconds of exchanging the gradients of a step.

        Parameters
        ----------
        hosts : in a ring, each of which sends 2 (hosts - 1) / hosts of them.
        """
        return 2 * (hosts - 1) / hosts * self.sent_s


def read_runs(folder: pathlib.Path) -> list[TimedRun]:
    """Return the runs of the summary; the split of a mixed one is read from its log.

    Raises
    ------
    DataError
        If a file is missing or not of this format.
    """
    runs: list[TimedRun] = []
    gpus: tuple[str, ...] = ()
    hosts = 0
    for line in _text(folder / "summary.txt").splitlines():
        found = _RUN.match(line.strip())
        if found is None:
            continue
        name, speed, text = found.groups()
        gpus, hosts = (_gpus(text), text.count("+") + 1) if text else (gpus, hosts)  # variations of a run stand below it without their GPUs
        if not gpus or float(speed) <= 0:
            raise DataError(f"summary.txt has the run {name} without GPUs or images", _REMEDY)
        equal = tuple(BATCH // len(gpus) for _ in gpus)
        split = _split(folder, name, len(gpus)) if len(set(gpus)) > 1 else equal
        runs.append(TimedRun(name, gpus, float(speed), split, hosts))
    if not any(run.is_mixed for run in runs):
        raise DataError("summary.txt has no run of mixed GPUs", _REMEDY)
    return runs


def homogeneous(runs: Sequence[TimedRun]) -> Homogeneous:
    """Return what the runs on one kind of GPU tell, by least squares; a single host exchanges nothing.

    Raises
    ------
    DataError
        If they do not tell the seconds of an image on each kind.
    """
    alike = [run for run in runs if not run.is_mixed]
    kinds = sorted({gpu for run in alike for gpu in run.gpus})
    rows = np.array([[run.split[0] * (run.gpus[0] == kind) for kind in kinds] + [2 * (run.hosts - 1) / run.hosts] for run in alike], float)
    seconds = np.array([run.step_s for run in alike])
    solved, _, rank, _ = np.linalg.lstsq(rows / seconds[:, None], np.ones(len(alike)), rcond=None)
    if rank < len(kinds) + 1 or min(solved[:-1], default=0.0) <= 0:
        raise DataError("the runs on one kind of GPU do not tell how fast each kind is", _REMEDY)
    return Homogeneous(dict(zip(kinds, solved[:-1].tolist())), max(0.0, float(solved[-1])))


def profile_of(gpus: Sequence[str], known: Homogeneous, hosts: int) -> Profile:
    """Return the profile of ResNet-50 as one layer on some GPUs.

    Parameters
    ----------
    gpus : kind of each.
    hosts : how many they are in.

    Raises
    ------
    DataError
        If nothing is known of a kind.
    """
    unknown = sorted(set(gpus) - set(known.image_s))
    if unknown:
        raise DataError(f"no run has {', '.join(unknown)} alone", _REMEDY)
    layer = MeasuredLayer("resnet50", "resnet50", WEIGHTS, 1000)
    devices = [
        MeasuredDevice(f"{gpu}:{at}", "host", 16 * 2**30, {"resnet50": {1: _passes(known, gpu, 1), BATCH: _passes(known, gpu, BATCH)}})
        for at, gpu in enumerate(gpus)
    ]
    links = {(a, b): (0.0, _FREE_BYTES_PER_S) for a in range(len(gpus)) for b in range(len(gpus)) if a != b}
    profile = chain_profile([layer], devices, links, BATCH, IMAGE, "sgd")
    return dataclasses.replace(profile, launch_s=known.exchange_s(hosts))


def predicted_s(profile: Profile, split: Sequence[int]) -> float:
    """Return the predicted seconds of a step whose batch is split so."""
    layers = range(len(profile.graph.layers))
    devices = range(len(profile.cluster.devices))
    if len(split) == 1:
        return predict(Costs(profile), unsplit_stage(profile.graph, layers, 0), memory=False).step_s
    return predict(Costs(profile), full_stage(split_by_samples(profile.graph, layers, split), devices), memory=False).step_s


def figures(run: TimedRun, known: Homogeneous, alone: float) -> dict[str, Any]:
    """Return the figures of a mixed run, with the split that this project's planner chooses for its GPUs.

    Parameters
    ----------
    alone : images/s of its faster GPUs alone, measured.
    """
    profile = profile_of(run.gpus, known, run.hosts)
    said = BATCH / predicted_s(profile, run.split)
    first = BATCH / predicted_s(profile_of(run.gpus, known, hosts=2), run.split)
    costs = Costs(profile)
    stage = best_batch(costs).stage
    taken = dict(zip(stage.devices, next((entry.samples for entry in stage.layouts if entry.samples), (BATCH,))))
    return {
        "run": run.name,
        "gpus": _counted(run.gpus),
        "split": ":".join(map(str, run.split)),
        "measured": run.images_per_s,
        "predicted": said,
        "step_s": run.step_s,
        "predicted_step_s": BATCH / said,
        "first_error": first / run.images_per_s - 1,
        "error": said / run.images_per_s - 1,
        "own_split": ":".join(str(taken.get(device, 0)) for device in range(len(run.gpus))),
        "own": BATCH / predict(costs, stage, memory=False).step_s,
        "alone": alone,
    }


def rows(records: Sequence[dict[str, Any]]) -> list[Row]:
    """Return the rows of the table."""
    return [table_row(record) for record in records]


def verdicts(records: Sequence[dict[str, Any]], known: Homogeneous) -> list[str]:
    """Return the errors, what the runs on one kind tell, and where slower GPUs are no gain, predicted and measured."""
    errors, first = ([abs(record[name]) for record in records] for name in ("error", "first_error"))
    rates = ", ".join(f"{kind} {1 / seconds:.0f} images/s" for kind, seconds in known.image_s.items())
    gains = [(record["predicted"] > record["alone"]) == (record["measured"] > record["alone"]) for record in records]
    return [
        f"From runs on one kind of GPU: {rates}, {known.sent_s:.2f} s to send the gradients of {WEIGHTS} weights over a host's link, "
        f"{4e-6 * WEIGHTS / known.sent_s:.0f} MB/s.",
        f"Mean error {statistics.mean(errors):.1%} (wanted {MEAN_OFF:.0%}), worst {max(errors):.1%} of {len(errors)} runs; at first, "
        f"with the exchange of two hosts for all, {statistics.mean(first):.1%} and {max(first):.1%}.",
        f"Whether the slower GPUs are a gain at all is predicted rightly for {sum(gains)} of {len(gains)} runs.",
    ]


def _passes(known: Homogeneous, gpu: str, images: int) -> tuple[float, float, float]:
    # a third of the operations is forward; only the sum counts where the batch is split
    seconds = images * known.image_s[gpu]
    return seconds / 3, 2 * seconds / 3, 0.0


def _gpus(text: str) -> tuple[str, ...]:
    gpus: list[str] = []
    for part in text.split("+"):
        words = part.split()
        if len(words) != 2 or not words[0].isdigit():
            raise DataError(f"summary.txt has the GPUs {text!r}", _REMEDY)
        gpus += [words[1]] * int(words[0])
    return tuple(gpus)


def _split(folder: pathlib.Path, name: str, gpus: int) -> tuple[int, ...]:
    logs = sorted((folder / f"virtual-{name}" / "1").glob("rank.*/stderr"))
    found = next((match for log in logs if (match := _SPLIT.search(_text(log)))), None)
    if found is None:
        raise DataError(f"the logs of {name} do not say HETEROGENEOUS_SPLIT", _REMEDY)
    split = tuple(map(int, found[1].split(":")))
    if len(split) != gpus or sum(split) != BATCH:
        raise DataError(f"the logs of {name} split a batch of {BATCH} images on {gpus} GPUs into {found[1]}", _REMEDY)
    return split


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as fault:
        raise DataError(f"{path.name} cannot be read: {fault.strerror}", _REMEDY) from fault


def _counted(gpus: Sequence[str]) -> str:
    return " + ".join(f"{gpus.count(kind)} {kind}" for kind in dict.fromkeys(gpus))


@click.command(help=__doc__)
@click.option("--folder", type=click.Path(path_type=pathlib.Path), default=FOLDER, show_default=True, help="The clone.")
@output_options()
def main(folder: pathlib.Path, output: Output) -> None:
    """Predict the mixed runs, and print the table."""
    try:
        runs = read_runs(folder)
        known = homogeneous(runs)
        fastest = min(known.image_s, key=lambda kind: known.image_s[kind])
        alone = max(run.images_per_s for run in runs if set(run.gpus) == {fastest})
        records = [figures(run, known, alone) for run in runs if run.is_mixed]
    except HeteroError as fault:
        raise click.ClickException(str(fault)) from fault
    notes = verdicts(records, known)
    output.report(FORM, rows(records), notes)
    output.record({"runs": records, "notes": notes})


if __name__ == "__main__":
    main()
