"""Claim: speeds of two GPUs differ from layer to layer, and sizes for each layer gain over one relative speed for all.

Others timed the forward pass of the same convolutions on five kinds of GPUs (NeuSight, ASPLOS 2025). Fetch them:
git clone https://github.com/sitar-lab/NeuSight runs/others/NeuSight. Networks are chains of convolutions, drawn from them by a seed.
A layer keeps its time, scaled to one batch, and the bytes of its output and kernel; it takes time in proportion to its filters or samples,
and twice as much backward. Steps are predicted; nothing of it was run.

    python -m tools.bench.others.neusight [--folder DIR] [--networks 20]
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
import math
import pathlib
import statistics
from collections.abc import Mapping, Sequence

import click
import numpy as np

from hetero_mtf.devices import ClusterRecord, Device, Link, MemoryPool
from hetero_mtf.errors import DataError, HeteroError
from hetero_mtf.graph.records import Layer, LayerGraph, Variable
from hetero_mtf.layers.catalogue import make_layer
from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.manual import batch_stage, filter_stage
from hetero_mtf.planning.profile.curve import Curve
from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.solvers.apportionment import proportional
from tools.results.output import Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

FOLDER = pathlib.Path("runs/others/NeuSight")
CONVOLUTIONS = pathlib.Path("scripts/asplos/data/dataset/train/collect/conv/p2.1.0")
FILES = {
    "A100": "NVIDIA A100 80GB PCIe.csv",
    "V100": "Tesla V100-PCIE-32GB.csv",
    "P100": "Tesla P100-PCIE-16GB.csv",
    "P4": "Tesla P4.csv",
    "T4": "Tesla T4.csv",
}
PAIRS = (("A100", "P4"), ("V100", "T4"), ("P100", "T4"))
LINKS = {"PCIe": (10e-6, 12e9), "10 GbE": (50e-6, 1.1e9)}  # assumed: seconds of latency, bytes/s
BATCH, LAYERS, BACKWARD = 64, 10, 2.0
MEMORY_BYTES = 2**40  # not asked here
_COLUMNS = ("B", "Input_Channel", "Output_Channel", "Kernel_Szie", "Input_Size", "Stride", "Padding")
_REMEDY = f"fetch it with git clone https://github.com/sitar-lab/NeuSight {FOLDER}, or name another --folder"

FORM = TableForm(
    "others_neusight",
    "Networks of convolutions that others timed on both GPUs: predicted steps relative to the faster GPU alone, medians",
    (
        Column("pair", "GPUs"),
        Column("link", "link"),
        Column("ratios", "speed ratio of layers, 5th to 95th percentile", ".1f"),
        Column("equal", "equal filters", ".2f"),
        Column("ruled", "filters by one speed", ".2f"),
        Column("filters", "filters, exact sizes", ".2f"),
        Column("batch", "samples by one speed", ".2f"),
        Column("samples", "samples, exact", ".2f"),
        Column("layers", "layers", ".2f"),
        Column("auto", "auto", ".2f"),
        Column("gains", "best by one speed / auto, median and most", ".2f"),
    ),
)


@dataclasses.dataclass(frozen=True)
class TimedConvolution:
    """A convolution that was timed.

    Parameters
    ----------
    batch, inputs, filters, kernel, size, stride, padding : samples, channels in and out, and extents along one side.
    """

    batch: int
    inputs: int
    filters: int
    kernel: int
    size: int
    stride: int
    padding: int

    @property
    def side(self) -> int:
        """Extent of its output along one side."""
        return (self.size + 2 * self.padding - self.kernel) // self.stride + 1


def read_seconds(folder: pathlib.Path, gpu: str) -> dict[TimedConvolution, float]:
    """Return convolution -> seconds of its forward pass on one kind of GPU; the least where it was timed more than once.

    Raises
    ------
    DataError
        If the file is missing or not of this format.
    """
    path = folder / CONVOLUTIONS / FILES[gpu]
    seconds: dict[TimedConvolution, float] = {}
    try:
        with path.open(encoding="utf-8", newline="") as text:
            for number, row in enumerate(csv.DictReader(text), 2):
                entry, took_s = _row(row, f"line {number} of {path.name}")
                seconds[entry] = min(took_s, seconds.get(entry, math.inf))
    except (OSError, UnicodeDecodeError, csv.Error) as fault:
        raise DataError(f"{path.name} cannot be read: {' '.join(str(fault).split())}", _REMEDY) from fault
    if not seconds:
        raise DataError(f"{path.name} has no convolutions", _REMEDY)
    return seconds


def drawn_network(known: Sequence[TimedConvolution], seed: int) -> list[TimedConvolution]:
    """Return the convolutions of a network, drawn by a seed; none twice.

    Parameters
    ----------
    known : what to draw from.
    """
    chosen = np.random.default_rng(seed).choice(len(known), size=min(LAYERS, len(known)), replace=False)
    return [known[at] for at in chosen]


def profile_of(
    network: Sequence[TimedConvolution], seconds: Sequence[Mapping[TimedConvolution, float]], link: tuple[float, float]
) -> Profile:
    """Return the profile of a chain of convolutions on two GPUs.

    Parameters
    ----------
    seconds : (devices,) of each convolution.
    link : seconds of latency and bytes a second.
    """
    first = network[0]
    layers = [make_layer("input", "InputLayer", {"shape": [first.size, first.size, first.inputs]}, (), [])]
    for at, entry in enumerate(network):
        layers.append(_layer(entry, at))
    graph = LayerGraph(tuple(layers), "float32")
    devices = tuple(
        Device(f"gpu:{at}", "GPU", "host", f"/job:worker/task:{at}/device:GPU:0", MEMORY_BYTES, f"memory:{at}")
        for at in range(len(seconds))
    )
    pools = tuple(MemoryPool(device.pool, MEMORY_BYTES) for device in devices)
    links = tuple(Link(a, b, *link) for a, b in itertools.permutations(range(len(devices)), 2))
    curves = [
        Curve(at, device, dimension, step_pass, BATCH, (units,), (factor * known[entry] * BATCH / entry.batch,), (0.0,))
        for device, known in enumerate(seconds)
        for at, entry in enumerate(network, 1)
        for step_pass, factor in (("forward", 1.0), ("backward", BACKWARD))
        for dimension, units in (("output", entry.filters), ("input", layers[at - 1].units))
    ]
    cluster = ClusterRecord(devices, pools, links)
    return Profile(cluster, graph, BATCH, tuple(curves), links, pools, OptimizerSpec("sgd"), "2000-01-01T00:00:00+00:00", {})


def relative_steps(profile: Profile) -> dict[str, float]:
    """Return the predicted steps of all arrangements, relative to the faster GPU alone.

    One speed is that of the whole network on each GPU; exact sizes and samples follow from the seconds of each layer.
    """
    costs, graph = Costs(profile), profile.graph
    speeds = (1 / costs.beside_s).tolist()
    devices = range(len(speeds))
    alone_s = float(costs.alone_s.min())
    stages = {
        "equal": filter_stage(graph, [1.0] * len(speeds), "pairs"),
        "ruled": filter_stage(graph, speeds, "pairs"),
        "batch": batch_stage(graph, proportional(BATCH, speeds).sizes, devices),
    }
    steps_s = {name: predict(costs, stage, memory=False).step_s for name, stage in stages.items()}
    for name, strategy in (("filters", "filters"), ("samples", "batch"), ("layers", "layers"), ("auto", "auto")):
        found = plan(profile, strategy=strategy).predicted
        assert found is not None
        steps_s[name] = found.step_s
    return {name: step_s / alone_s for name, step_s in steps_s.items()}


def compared(
    pair: tuple[str, str], link: str, seconds: Mapping[str, Mapping[TimedConvolution, float]], networks: int
) -> dict[str, str | float | list[float]]:
    """Return the figures of a pair of GPUs and a link, over networks that are drawn by the seeds from 0.

    Parameters
    ----------
    seconds : GPU -> convolution -> seconds.
    """
    both = [seconds[gpu] for gpu in pair]
    known = sorted(set(both[0]) & set(both[1]), key=dataclasses.astuple)
    ratios = np.percentile([both[1][entry] / both[0][entry] for entry in known], [5, 95])
    steps = [relative_steps(profile_of(drawn_network(known, seed), both, LINKS[link])) for seed in range(networks)]
    gains = [min(each["ruled"], each["batch"], 1.0) / each["auto"] for each in steps]
    medians = {name: statistics.median(each[name] for each in steps) for name in steps[0]}
    return {"pair": " and ".join(pair), "link": link, "ratios": ratios.tolist(), **medians, "gains": [statistics.median(gains), max(gains)]}


def rows(records: Sequence[Mapping[str, str | float | list[float]]]) -> list[Row]:
    """Return the rows of the table."""
    return [table_row(record) for record in records]


def _layer(entry: TimedConvolution, source: int) -> Layer:
    options = {"filters": entry.filters, "kernel_size": [entry.kernel] * 2, "strides": [entry.stride] * 2, "padding": "same"}
    attributes = {**options, "dilation_rate": [1, 1], "groups": 1, "activation": "relu", "use_bias": False, "kernel_l2": 0.0}
    kernel = Variable("kernel", (entry.kernel, entry.kernel, entry.inputs, entry.filters), True)
    shape = (entry.side, entry.side, entry.filters)
    return Layer(f"conv{source}", "Conv2D", attributes, (source,), shape, (kernel,), 2.0 * kernel.size * entry.side**2)


def _row(row: Mapping[str, str | None], place: str) -> tuple[TimedConvolution, float]:
    try:
        entry = TimedConvolution(*(int(row[column] or "") for column in _COLUMNS))
        took_s = 1e-3 * float(row["Latency"] or "")
    except (KeyError, ValueError) as fault:
        raise DataError(f"{place} is no timed convolution", _REMEDY) from fault
    if min(entry.batch, entry.inputs, entry.filters, entry.kernel, entry.stride, entry.side) < 1 or not 0 < took_s < math.inf:
        raise DataError(f"{place} has sizes or a time that cannot be", _REMEDY)
    return entry, took_s


@click.command(help=__doc__)
@click.option("--folder", type=click.Path(path_type=pathlib.Path), default=FOLDER, show_default=True, help="The clone.")
@click.option("--networks", default=20, show_default=True, help="Networks drawn for each pair and link.")
@output_options()
def main(folder: pathlib.Path, networks: int, output: Output) -> None:
    """Draw networks, predict their steps, and print the table."""
    try:
        seconds = {gpu: read_seconds(folder, gpu) for gpu in sorted({gpu for pair in PAIRS for gpu in pair})}
        records = [compared(pair, link, seconds, networks) for pair in PAIRS for link in LINKS]
    except HeteroError as fault:
        raise click.ClickException(str(fault)) from fault
    notes = [f"{networks} networks of {LAYERS} convolutions for each row, batch {BATCH}."]
    output.report(FORM, rows(records), notes)
    output.record({"pairs": records, "notes": notes})


if __name__ == "__main__":
    main()
