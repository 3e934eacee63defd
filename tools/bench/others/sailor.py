"""Claim: iterations of plans on mixed GPUs, measured by others, are predicted from times of each kind of GPU alone.

The plans train OPT-350M on RTX 3090, RTX 2080 and Titan RTX, with tensor parallelism within a host, and data parallelism and a pipeline
across hosts (Sailor, SOSP 2025). Fetch them: git clone https://github.com/eth-easl/sailor runs/others/sailor. A host's GPUs that compute
each layer together are one device here. Nothing is fitted to an iteration of mixed GPUs. "first" is the prediction as this
project's pipelines run, whose transfers begin as soon as they can; "last" is that of PyTorch's, whose transfers wait for their reader.

    python -m tools.bench.others.sailor [--folder DIR]
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json
import pathlib
import statistics
from collections.abc import Sequence
from typing import Any

import click

from hetero_mtf.errors import DataError, HeteroError, PlanError
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts, Pipeline, predict_pipeline
from hetero_mtf.planning.pipeline.search import PipelineOptions, best_pipeline
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.schedule.execution import Execution
from tools.bench.others.measured_chain import MeasuredDevice, MeasuredLayer, chain_profile, even_stage, tensor_peaks
from tools.bench.others.sailor_files import (
    LINKS,
    PLANNER,
    SIZES,
    TIMES,
    LayerSizes,
    MeasuredPlan,
    Times,
    link_s,
    read_links,
    read_plan,
    read_sizes,
    read_times,
)
from tools.results.output import Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

FOLDER = pathlib.Path("runs/others/sailor")
NETWORK = "OPT-350"
CLUSTERS = {"mixed": "mit", "GH200": "clariden/OPT-350"}
ONE_HOST = "plan_config_N1_D1_M4_G1"  # the run on one host that tells what a process takes beside tensors
LEFT_OUT = ("plan_config_N3_D1",)  # it has the numbers of N6_D2, and the seconds of gradients where there is one replica
TOKENS = 2048  # of a sample, which is what the input is
GPU_BYTES = {"Titan-RTX": 24 * 2**30, "RTX-2080": 11 * 2**30, "RTX-3090": 24 * 2**30, "GH-96": 96 * 2**30}
OFF, MEMORY_OFF = 0.25, 0.2  # what is wanted
SIMULATORS = ("SAILOR", "Metis", "FlashFlex", "AMP")  # of which Sailor's authors wrote the last three after others
SIMULATED = pathlib.Path(__file__).parent / "sailor_simulations.json"
MICROBATCHES = (16, 32, 64, 128)  # that this project's plans may have
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
        *(Column(f"{name.lower()}_error", f"error of {name}", "+.1%") for name in SIMULATORS),
        Column("measured_gib", "peak GiB", ".2f"),
        Column("predicted_gib", "predicted GiB", ".2f"),
        Column("memory_error", "error, memory", "+.1%", "within", MEMORY_OFF),
    ),
)


OWN = TableForm(
    "others_sailor_plans",
    "This project's pipelines for the same hosts, beside the fastest measured plan; none of them was run",
    (
        Column("hosts", "hosts"),
        Column("batch", "batch", ".0f"),
        Column("measured", "fastest plan"),
        Column("measured_s", "measured s", ".1f"),
        Column("predicted_s", "predicted s", ".1f"),
        Column("stages", "stages of our plan"),
        Column("microbatches", "microbatches", ".0f"),
        Column("own_s", "predicted s (ours)", ".1f"),
        Column("times", "fastest / ours, predicted", ".2f"),
    ),
)


@dataclasses.dataclass(frozen=True)
class Published:
    """What the files say of GPUs and links.

    Parameters
    ----------
    times : as `read_times` returns.
    sizes : degree -> (layers,) sizes.
    links : as `read_links` returns.
    """

    times: dict[str, Times]
    sizes: dict[int, list[LayerSizes]]
    links: dict[tuple[str, int, str, int], tuple[float, ...]]


def published(folder: pathlib.Path) -> Published:
    """Return what the files of a clone say.

    Raises
    ------
    DataError
        If one is missing or damaged.
    """
    times = read_times(folder / TIMES, NETWORK)
    return Published(times, read_sizes(folder / SIZES, NETWORK), read_links(folder / LINKS))


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


def profile_of(known: Published, devices: Sequence[tuple[str, int]], batch: int, beside: float = 0.0) -> Profile:
    """Return the profile of hosts whose GPUs compute each layer together.

    Parameters
    ----------
    devices : (hosts,) GPU, and how many of a host are one device.
    batch : samples of an iteration.
    beside : bytes of a GPU that are no tensors.

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
        records.append(MeasuredDevice(f"{gpu}x{degree}:{at}", f"host{at}", degree * int(GPU_BYTES[gpu] - beside), kinds))
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
        stages.append(even_stage(costs.profile, ([0] if not stages else []) + [layer + 1 for layer in layers], members))
    pipeline = Pipeline(tuple(stages), Execution("1f1b", plan.microbatches))
    first, line = predict_pipeline(costs, pipeline)
    last, _ = predict_pipeline(costs, pipeline, rendezvous=True)
    each = costs.at(plan.microbatch * plan.replicas).profile
    peaks = [peak / plan.groups[0][0][1] for peak in tensor_peaks(each, stages, line.in_flight)]
    return {"first_s": first.step_s, "last_s": last.step_s, "memory_bytes": max(peaks), "last_stage_bytes": peaks[-1]}


def beside_bytes(known: Published, folder: pathlib.Path) -> float:
    """Return the bytes of a GPU that a run on one host takes beyond its tensors; no plan of mixed GPUs counts."""
    plan = next(plan for plan in plans_in(folder, "GH200") if plan.name == ONE_HOST)
    return plan.memory_bytes - predicted(known, plan)["memory_bytes"]


@functools.cache
def _simulations() -> dict[str, Any]:
    """Return cluster -> plan -> simulator -> what it says."""
    return dict(json.loads(SIMULATED.read_text())["predictions"])


def figures(cluster: str, plan: MeasuredPlan, known: Published, beside: float) -> dict[str, Any]:
    """Return the figures of a plan.

    Parameters
    ----------
    beside : bytes of a GPU that are no tensors.
    """
    said, name = predicted(known, plan), plan.name.removeprefix("plan_config_")
    peak_bytes = said["memory_bytes"] + beside
    theirs = _simulations()[cluster].get(name, {})
    return {
        "cluster": cluster,
        "plan": name,
        "stages": " | ".join(_groups_text(groups) for groups in plan.groups),
        "measured_s": plan.iteration_s,
        "first_s": said["first_s"],
        "first_error": said["first_s"] / plan.iteration_s - 1,
        "last_s": said["last_s"],
        "last_error": said["last_s"] / plan.iteration_s - 1,
        **{f"{each.lower()}_error": theirs[each]["iteration_s"] / plan.iteration_s - 1 for each in SIMULATORS if each in theirs},
        "measured_gib": plan.memory_bytes / 2**30,
        "predicted_gib": peak_bytes / 2**30,
        "memory_error": peak_bytes / plan.memory_bytes - 1,
        "last_stage_error": (said["last_stage_bytes"] + beside) / plan.memory_bytes - 1,
    }


def _groups_text(groups: Sequence[tuple[str, int]]) -> str:
    runs = [(group, len(list(members))) for group, members in itertools.groupby(groups)]
    return ", ".join(f"{f'{count} x ' if count > 1 else ''}{degree} {gpu}" for (gpu, degree), count in runs)


def rows(records: Sequence[dict[str, Any]]) -> list[Row]:
    """Return the rows of the table."""
    return [table_row({key: value for key, value in record.items() if key != "last_stage_error"}) for record in records]


def verdicts(records: Sequence[dict[str, Any]]) -> list[str]:
    """Return the errors over all plans of each cluster, and the pairs of plans whose order is not the measured one."""
    said = []
    for cluster in CLUSTERS:
        here = [record for record in records if record["cluster"] == cluster]
        for which in ("first", "last", *(name.lower() for name in SIMULATORS)):
            known = [record for record in here if f"{which}_error" in record]
            if not known:
                continue
            errors = [abs(record[f"{which}_error"]) for record in known]
            text = f"{cluster}, {which}: median error {statistics.median(errors):.1%}, worst {max(errors):.1%} of {len(known)} plans"
            pairs = len(known) * (len(known) - 1) // 2
            said.append(f"{text}; {_disordered(known, which)} of {pairs} pairs in another order than measured.")
        near, last = (sum(abs(record[key]) <= MEMORY_OFF for record in here) for key in ("memory_error", "last_stage_error"))
        text = f"{cluster}: peak memory within {MEMORY_OFF:.0%} for {near} of {len(here)} plans"
        said.append(f"{text}; taken as that of the last stage alone, for {last}.")
    return said


def _disordered(records: Sequence[dict[str, Any]], which: str, tie: float = 0.03) -> int:
    """Return the pairs that are predicted in another order than measured, ties within a part left out."""
    both = [(record["measured_s"], record["measured_s"] * (1 + record[f"{which}_error"])) for record in records]
    apart = [(a, b) for a, b in itertools.combinations(both, 2) if abs(a[0] / b[0] - 1) > tie]
    return sum((a[0] < b[0]) != (a[1] < b[1]) for a, b in apart)


def own_plans(known: Published, plans: Sequence[MeasuredPlan], beside: float) -> list[dict[str, Any]]:
    """Return this project's best pipeline for the hosts of each plan, beside the fastest measured plan on these hosts.

    Parameters
    ----------
    beside : bytes of a GPU that are no tensors.
    """
    by_hosts: dict[tuple[tuple[tuple[str, int], ...], int], list[MeasuredPlan]] = {}
    for plan in plans:
        hosts = tuple(sorted(group for stage in plan.groups for group in stage))
        by_hosts.setdefault((hosts, plan.batch), []).append(plan)
    return [_own_plan(known, hosts, batch, members, beside) for (hosts, batch), members in by_hosts.items()]


def _own_plan(
    known: Published, hosts: Sequence[tuple[str, int]], batch: int, plans: Sequence[MeasuredPlan], beside: float
) -> dict[str, Any]:
    costs = MicrobatchCosts(profile_of(known, hosts, batch, beside))
    found = []
    for microbatches in MICROBATCHES:
        with contextlib.suppress(PlanError):  # too little memory
            best = best_pipeline(costs, PipelineOptions(microbatches=microbatches))
            found.append((predict_pipeline(costs, best.pipeline, rendezvous=True)[0].step_s, best))
    theirs = min(plans, key=lambda plan: plan.iteration_s)
    measured = {"measured": theirs.name.removeprefix("plan_config_"), "measured_s": theirs.iteration_s}
    row = {"hosts": _groups_text(hosts), "batch": batch, **measured, "predicted_s": predicted(known, theirs)["last_s"]}
    if not found:
        return row
    step_s, best = min(found, key=lambda entry: entry[0])
    stages = [f"{len(stage.layers)} layers on {_groups_text([hosts[d] for d in stage.devices])}" for stage in best.pipeline.stages]
    own = {"stages": " | ".join(stages), "microbatches": best.pipeline.execution.microbatches, "own_s": step_s}
    return {**row, **own, "times": row["predicted_s"] / step_s}


@click.command(help=__doc__)
@click.option("--folder", type=click.Path(path_type=pathlib.Path), default=FOLDER, show_default=True, help="The clone.")
@output_options()
def main(folder: pathlib.Path, output: Output) -> None:
    """Predict the plans, and print the table."""
    try:
        known = published(folder)
        beside = beside_bytes(known, folder)
        records = [figures(cluster, plan, known, beside) for cluster in CLUSTERS for plan in plans_in(folder, cluster)]
        own = own_plans(known, plans_in(folder, "mixed"), beside)
    except HeteroError as fault:
        raise click.ClickException(str(fault)) from fault
    notes = verdicts(records)
    output.report(FORM, rows(records), notes)
    output.report(OWN, rows(own), [])
    output.record({"plans": records, "own": own, "notes": notes})


if __name__ == "__main__":
    main()
