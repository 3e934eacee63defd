"""Claim: iterations of plans on mixed GPUs, measured by others, are predicted from times of each kind of GPU alone.

The plans train OPT-350M on RTX 3090, RTX 2080 and Titan RTX, with tensor parallelism within a host, and data parallelism and a pipeline
across hosts (Sailor, SOSP 2025). Fetch them: git clone https://github.com/eth-easl/sailor runs/others/sailor. A host's GPUs that compute
each layer together are one device here. Nothing is fitted to an iteration of mixed GPUs. "first" is the prediction as this
project's pipelines run, whose transfers begin as soon as they can; "last" is that of PyTorch's, whose transfers wait for their reader.

    python -m tools.bench.others.sailor [--folder DIR]
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import statistics
from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from hetero_mtf.errors import DataError, HeteroError
from hetero_mtf.planning.layout.records import Stage
from hetero_mtf.planning.layout.stage_from_layouts import full_stage, split_by_samples, unsplit_stage
from hetero_mtf.planning.memory.stage_memory import stage_bytes
from hetero_mtf.planning.pipeline.group_stages import with_samples
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts, Pipeline, predict_pipeline
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.schedule.execution import Execution
from tools.bench.others.measured_chain import MeasuredDevice, MeasuredLayer, chain_profile
from tools.bench.others.sailor_files import LINKS, PLANNER, LayerSizes, MeasuredPlan, link_s, read_links, read_plan, read_sizes, read_times
from tools.results.output import Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

FOLDER = pathlib.Path("runs/others/sailor")
NETWORK, PROFILES = "OPT-350", "OPT-350"
CLUSTERS = {"mixed": "mit", "GH200": "clariden/OPT-350"}
ONE_HOST = "plan_config_N1_D1_M4_G1"  # the run on one host that tells what a process takes beside tensors
LEFT_OUT = ("plan_config_N3_D1",)  # it has the numbers of N6_D2, and the seconds of gradients where there is one replica
TOKENS = 2048  # of a sample, which is what the input is
GPU_BYTES = {"Titan-RTX": 24 * 2**30, "RTX-2080": 11 * 2**30, "RTX-3090": 24 * 2**30, "GH-96": 96 * 2**30}
OFF, MEMORY_OFF = 0.25, 0.2  # what is wanted
_SIZES = (1e6, 256e6)  # bytes at which the seconds of a link are taken, for a line through them

FORM = TableForm(
    "others_sailor",
    "Iterations of OPT-350M on mixed GPUs, measured by others, and predicted",
    (
        Column("cluster", "hosts are"),
        Column("plan", "plan"),
        Column("stages", "stages: GPUs of the replicas"),
        Column("measured_s", "measured s", ".2f"),
        Column("first_s", "first s", ".2f"),
        Column("first_error", "error, first", "+.1%"),
        Column("last_s", "last s", ".2f"),
        Column("last_error", "error, last", "+.1%", "within", OFF),
        Column("measured_gib", "peak GiB", ".2f"),
        Column("predicted_gib", "predicted GiB", ".2f"),
        Column("memory_error", "error, memory", "+.1%", "within", MEMORY_OFF),
    ),
)


@dataclasses.dataclass(frozen=True)
class Published:
    """What the files say of GPUs and links.

    Parameters
    ----------
    times : GPU -> (samples, degree) -> (layers,) seconds.
    sizes : degree -> (layers,) sizes.
    links : as `read_links` returns.
    """

    times: dict[str, dict[tuple[int, int], list[tuple[float, float, float]]]]
    sizes: dict[int, list[LayerSizes]]
    links: dict[tuple[str, int, str, int], tuple[float, ...]]


def published(folder: pathlib.Path) -> Published:
    """Return what the files of a clone say.

    Raises
    ------
    DataError
        If one is missing or damaged.
    """
    profiles = folder / PLANNER / "sailor_planner/profiles" / PROFILES
    times = {gpu: read_times(profiles / gpu / "profile.json") for gpu in GPU_BYTES}
    return Published(times, read_sizes(folder / PLANNER / "llm_info.json", NETWORK), read_links(folder / LINKS))


def plans_in(folder: pathlib.Path, cluster: str) -> list[MeasuredPlan]:
    """Return the measured plans of a cluster, but for those that are left out.

    Raises
    ------
    DataError
        If there is none.
    """
    below = folder / PLANNER / "simulations/validation" / CLUSTERS[cluster]
    paths = [path for path in sorted(below.rglob("plan_config_*.json")) if path.stem not in LEFT_OUT]
    if not paths:
        address = "https://github.com/eth-easl/sailor"
        raise DataError(f"{folder} has no plans", f"fetch them with git clone {address} {FOLDER}, or name another --folder")
    return [read_plan(path) for path in paths]


def profile_of(known: Published, devices: Sequence[tuple[str, int]], batch: int) -> Profile:
    """Return the profile of hosts whose GPUs compute each layer together.

    Parameters
    ----------
    devices : (hosts,) GPU, and how many of a host are one device.
    batch : samples of an iteration.

    Raises
    ------
    DataError
        If nothing was measured of such a host.
    """
    records = []
    for at, (gpu, degree) in enumerate(devices):
        measured = {samples: rows for (samples, each), rows in known.times[gpu].items() if each == degree}
        if not measured:
            raise DataError(f"nothing was measured of {degree} GPUs {gpu} together", "leave the plan out")
        kinds = {str(layer): {samples: rows[layer] for samples, rows in measured.items()} for layer in range(len(known.sizes[degree]))}
        records.append(MeasuredDevice(f"{gpu}x{degree}:{at}", f"host{at}", degree * GPU_BYTES[gpu], kinds))
    degree = devices[0][1]
    layers = [
        MeasuredLayer(f"layer{at}", str(at), degree * size.params_floats, size.act_output_floats, degree * size.act_mem_floats)
        for at, size in enumerate(known.sizes[degree])
    ]
    links = {(a, b): _line(known, devices[a], devices[b]) for a, b in itertools.permutations(range(len(devices)), 2)}
    return chain_profile(layers, records, links, batch, TOKENS, "adam")


def _line(known: Published, here: tuple[str, int], there: tuple[str, int]) -> tuple[float, float]:
    """Return latency and bandwidth of a link between hosts: the line through the seconds of two sizes."""
    (low_s, high_s) = (link_s(known.links[(*here, *there)], size) for size in _SIZES)
    bandwidth = (_SIZES[1] - _SIZES[0]) / (high_s - low_s)
    return max(0.0, low_s - _SIZES[0] / bandwidth), bandwidth


def predicted(known: Published, plan: MeasuredPlan) -> dict[str, float]:
    """Return the predicted seconds of a plan's iteration, first and last, and the peak bytes of a GPU, of all stages and of the last."""
    devices = [group for stage in plan.groups for group in stage]
    costs = MicrobatchCosts(profile_of(known, devices, plan.batch))
    stages, begin = [], 0
    for layers, groups in zip(plan.layers, plan.groups):
        members = range(begin, begin + len(groups))
        begin += len(groups)
        stages.append(_stage(costs.profile, ([0] if not stages else []) + [layer + 1 for layer in layers], members))
    pipeline = Pipeline(tuple(stages), Execution("1f1b", plan.microbatches))
    first, line = predict_pipeline(costs, pipeline)
    last, _ = predict_pipeline(costs, pipeline, rendezvous=True)
    each = costs.at(plan.microbatch * plan.replicas).profile
    held = [stage_bytes(each, with_samples(stage, each.batch_size)) for stage in stages]
    peaks = [max(np.array(stage.peak(count)) - stage.beside) / plan.groups[0][0][1] for stage, count in zip(held, line.in_flight)]
    return {"first_s": first.step_s, "last_s": last.step_s, "memory_bytes": max(peaks), "last_stage_bytes": peaks[-1]}


def _stage(profile: Profile, layers: Sequence[int], devices: Sequence[int]) -> Stage:
    if len(devices) == 1:
        return unsplit_stage(profile.graph, layers, devices[0])
    samples = [profile.batch_size // len(devices)] * len(devices)
    return full_stage(split_by_samples(profile.graph, layers, samples), devices)


def beside_bytes(known: Published, folder: pathlib.Path) -> float:
    """Return the bytes of a GPU that a run on one host takes beyond its tensors; no plan of mixed GPUs counts."""
    plan = next(plan for plan in plans_in(folder, "GH200") if plan.name == ONE_HOST)
    return plan.memory_bytes - predicted(known, plan)["memory_bytes"]


def figures(cluster: str, plan: MeasuredPlan, known: Published, beside: float) -> dict[str, Any]:
    """Return the figures of a plan.

    Parameters
    ----------
    beside : bytes of a GPU that are no tensors.
    """
    said = predicted(known, plan)
    peak_bytes = said["memory_bytes"] + beside
    return {
        "cluster": cluster,
        "plan": plan.name.removeprefix("plan_config_"),
        "stages": " | ".join(", ".join(f"{degree} {gpu}" for gpu, degree in groups) for groups in plan.groups),
        "measured_s": plan.iteration_s,
        "first_s": said["first_s"],
        "first_error": said["first_s"] / plan.iteration_s - 1,
        "last_s": said["last_s"],
        "last_error": said["last_s"] / plan.iteration_s - 1,
        "measured_gib": plan.memory_bytes / 2**30,
        "predicted_gib": peak_bytes / 2**30,
        "memory_error": peak_bytes / plan.memory_bytes - 1,
        "last_stage_error": (said["last_stage_bytes"] + beside) / plan.memory_bytes - 1,
    }


def rows(records: Sequence[dict[str, Any]]) -> list[Row]:
    """Return the rows of the table."""
    return [table_row(record) for record in records]


def verdicts(records: Sequence[dict[str, Any]]) -> list[str]:
    """Return the errors over all plans of each cluster, and the pairs of plans whose order is not the measured one."""
    said = []
    for cluster in CLUSTERS:
        here = [record for record in records if record["cluster"] == cluster]
        for which in ("first", "last"):
            errors = [abs(record[f"{which}_error"]) for record in here]
            wrong = _disordered(here, f"{which}_s")
            text = f"{cluster}, {which}: median error {statistics.median(errors):.1%}, worst {max(errors):.1%} of {len(here)} plans"
            said.append(f"{text}; {wrong} of {len(here) * (len(here) - 1) // 2} pairs in another order than measured.")
        near, last = (sum(abs(record[key]) <= MEMORY_OFF for record in here) for key in ("memory_error", "last_stage_error"))
        text = f"{cluster}: peak memory within {MEMORY_OFF:.0%} for {near} of {len(here)} plans"
        said.append(f"{text}; taken as that of the last stage alone, for {last}.")
    return said


def _disordered(records: Sequence[dict[str, Any]], key: str, tie: float = 0.03) -> int:
    """Return the pairs that are in another order than measured, ties within a part left out."""
    pairs = itertools.combinations(records, 2)
    apart = [(a, b) for a, b in pairs if abs(a["measured_s"] / b["measured_s"] - 1) > tie]
    return sum((a["measured_s"] < b["measured_s"]) != (a[key] < b[key]) for a, b in apart)


@click.command(help=__doc__)
@click.option("--folder", type=click.Path(path_type=pathlib.Path), default=FOLDER, show_default=True, help="The clone.")
@output_options()
def main(folder: pathlib.Path, output: Output) -> None:
    """Predict the plans, and print the table."""
    try:
        known = published(folder)
        beside = beside_bytes(known, folder)
        records = [figures(cluster, plan, known, beside) for cluster in CLUSTERS for plan in plans_in(folder, cluster)]
    except HeteroError as fault:
        raise click.ClickException(str(fault)) from fault
    notes = verdicts(records)
    output.report(FORM, rows(records), notes)
    output.record({"plans": records, "notes": notes})


if __name__ == "__main__":
    main()
