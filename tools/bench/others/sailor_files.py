"""The published files of Sailor: times of layers, sizes of layers, bandwidths, and measured iterations of plans on mixed GPUs.

    simulations/profiles_tmp.json       {network: {GPU: {samples: {tensor parallel degree: {layer: [forward, backward, update] seconds}}}}}
    llm_info.json                       {network: {degree: {layer: {"params_floats", "act_output_floats", "act_mem_floats", ...}}}}
    multizone_bandwidths_het.json       {zone: {GPU: {GPUs of a host: {zone: {GPU: {GPUs: [[a, b, c], bytes/s]}}}}}}
    validation/.../plan_config_*.json   {"pipeline_list", "mbs", "gbs", "real", "red_grads", "max_mem", ...}

n bytes over a link take n / (a x^2 + b x + c) ns, where x = log2(n / 1e6). A stage of a plan has one entry for each of its data parallel
replicas: a host's GPUs, and how many of them compute each layer together.

Reference: Strati et al., "Sailor: Automating Distributed Training over Dynamic, Heterogeneous, and Geo-distributed Clusters", SOSP 2025,
with the files at github.com/eth-easl/sailor (MIT licence).
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from typing import Any

from hetero_mtf.errors import DataError
from hetero_mtf.json_records import Fault, listed, read_value
from tools.bench.others.published_json import published_json

_REMEDY = "fetch the file again from github.com/eth-easl/sailor"
PLANNER = pathlib.Path("sailor/Planner")
TIMES, SIZES = PLANNER / "simulations/profiles_tmp.json", PLANNER / "llm_info.json"
LINKS = pathlib.Path("sailor/providers/multizone_bandwidths_het.json")
_Times = dict[str, dict[str, dict[str, tuple[float, float, float]]]]
_Replica = tuple[tuple[tuple[str, int, str], ...], int]


@dataclasses.dataclass(frozen=True)
class LayerSizes:
    """Elements of a layer on one of the GPUs that compute it together.

    Parameters
    ----------
    params_floats : of its weights.
    act_output_floats : of its output for one sample.
    act_mem_floats : that are allocated by its forward pass for one sample.
    """

    params_floats: int
    act_output_floats: int
    act_mem_floats: int


@dataclasses.dataclass(frozen=True)
class MeasuredPlan:
    """A plan and what its iteration took.

    Parameters
    ----------
    name : of the file.
    layers : (stages, ...) layers of each stage.
    groups : (stages, replicas) GPU of each replica, and how many of them compute each layer together.
    microbatch, batch : samples of a microbatch of one replica, and of an iteration.
    iteration_s : measured seconds.
    memory_bytes : measured peak of a GPU.
    """

    name: str
    layers: tuple[tuple[int, ...], ...]
    groups: tuple[tuple[tuple[str, int], ...], ...]
    microbatch: int
    batch: int
    iteration_s: float
    memory_bytes: float

    @property
    def replicas(self) -> int:
        """Data parallel replicas of each stage."""
        return len(self.groups[0])

    @property
    def microbatches(self) -> int:
        """Microbatches of an iteration."""
        return self.batch // (self.microbatch * self.replicas)


Times = dict[tuple[int, int], list[tuple[float, float, float]]]  # (samples, degree) -> seconds of the passes of each layer


def read_times(path: pathlib.Path, network: str) -> dict[str, Times]:
    """Return GPU -> (samples, tensor parallel degree) -> (layers,) seconds of forward pass, backward pass and update.

    Raises
    ------
    DataError
        If the file is missing or not of this format, or has not this network.
    """
    document = _object(published_json(path, _REMEDY)).get(network)
    by_gpu = _typed(dict[str, _Times], document, path.name)
    return {gpu: _numbered(by_samples, f"{path.name}, {gpu}") for gpu, by_samples in by_gpu.items()}


def _numbered(by_samples: _Times, place: str) -> Times:
    numbered = {}
    for samples, by_degree in by_samples.items():
        for degree, rows in by_degree.items():
            try:
                key = int(samples), int(degree)
                ordered = [rows[str(layer)] for layer in range(len(rows))]
            except (ValueError, KeyError) as fault:
                raise DataError(f"{place} has no layers 0, 1, ... at {samples} samples and degree {degree}", _REMEDY) from fault
            if any(not 0 <= seconds < math.inf for row in ordered for seconds in row):
                raise DataError(f"{place} has seconds that are no time at {samples} samples and degree {degree}", _REMEDY)
            numbered[key] = ordered
    return numbered


def read_sizes(path: pathlib.Path, network: str) -> dict[int, list[LayerSizes]]:
    """Return tensor parallel degree -> (layers,) sizes of a network's layers.

    Raises
    ------
    DataError
        If the file is missing or not of this format, or has not this network.
    """
    document = published_json(path, _REMEDY)
    if not isinstance(document, dict) or not isinstance(document.get(network), dict):
        raise DataError(f"{path.name} has no network {network}", _REMEDY)
    names = [field.name for field in dataclasses.fields(LayerSizes)]
    sizes = {}
    for degree, rows in document[network].items():
        kept = {at: {name: row.get(name) for name in names} if isinstance(row, dict) else row for at, row in _object(rows).items()}
        by_layer = _typed(dict[str, LayerSizes], kept, path.name)
        sizes[int(degree)] = [by_layer[str(layer)] for layer in range(len(by_layer))]
    return sizes


def read_plan(path: pathlib.Path) -> MeasuredPlan:
    """Return a plan with its measurements.

    Raises
    ------
    DataError
        If the file is missing or not of this format, or its stages and replicas do not fit each other.
    """
    document = _object(published_json(path, _REMEDY))
    pipelines = document.get("pipeline_list")
    pipeline = _object(pipelines[0] if isinstance(pipelines, list) and len(pipelines) == 1 else None)
    layers = _typed(tuple[tuple[int, ...], ...], pipeline.get("layers_per_stage"), path.name)
    stages = _typed(tuple[tuple[_Replica, ...], ...], pipeline.get("tmp_per_stage"), path.name)
    numbers = _typed(dict[str, float], {name: document.get(name) for name in ("mbs", "gbs", "real", "max_mem")}, path.name)
    groups = tuple(tuple((hosts[0][0], degree) for hosts, degree in stage if hosts) for stage in stages)
    fits = len(layers) == len(groups) > 0 and len({len(stage) for stage in groups}) == 1 and all(layers) and bool(groups[0])
    if not fits or [layer for stage in layers for layer in stage] != list(range(sum(map(len, layers)))):
        raise DataError(f"{path.name} has stages without layers or with other replicas than others", _REMEDY)
    plan = MeasuredPlan(path.stem, layers, groups, int(numbers["mbs"]), int(numbers["gbs"]), numbers["real"], numbers["max_mem"])
    if plan.microbatch < 1 or plan.batch % (plan.microbatch * plan.replicas) or plan.iteration_s <= 0:
        raise DataError(f"{path.name} has a batch of {plan.batch}, which {plan.replicas} replicas do not share evenly", _REMEDY)
    return plan


def read_links(path: pathlib.Path) -> dict[tuple[str, int, str, int], tuple[float, ...]]:
    """Return (GPU, GPUs of its host, GPU, GPUs of its host) -> coefficients of the bandwidth, of the first zone.

    Raises
    ------
    DataError
        If the file is missing or not of this format.
    """
    zone = next(iter(_object(published_json(path, _REMEDY)).items()), None)
    if zone is None:
        raise DataError(f"{path.name} has no zone", _REMEDY)
    name, senders = zone
    links = {}
    for sender, by_count in _object(senders).items():
        for count, receivers in _object(by_count).items():
            for receiver, by_other in _object(_object(receivers).get(name)).items():
                for other, entry in _object(by_other).items():
                    coefficients = _typed(tuple[tuple[float, ...], float], entry, path.name)[0]
                    links[sender, int(count), receiver, int(other)] = coefficients
    return links


def link_s(coefficients: tuple[float, ...], sent_bytes: float) -> float:
    """Return the seconds of a transfer by the fitted bandwidth.

    >>> link_s((0.0, 0.0, 0.1), 1e9)
    10.0
    """
    x = math.log2(sent_bytes / 1e6)
    giga = sum(factor * x**power for power, factor in enumerate(reversed(coefficients)))
    return sent_bytes / (1e9 * giga)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError("a published file has no object where one belongs", _REMEDY)
    return value


def _typed(form: Any, value: Any, name: str) -> Any:
    faults: list[Fault] = []
    read = read_value(form, value, name, faults)
    if faults:
        raise DataError(f"the published files have {listed(faults[:3])}", _REMEDY)
    return read
