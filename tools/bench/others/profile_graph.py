"""The profiles of PipeDream, read from their text, and linearised.

    node5 -- Conv2d(...) -- forward_compute_time=1.5, backward_compute_time=3.0, activation_size=4096.0, parameter_size=64.0
    <tab>node5 -- node6

Times are milliseconds of a batch on the GPU that was profiled, sizes are bytes; the lines with a tab are edges. As in PipeDream's own
optimizer, the input of the network is left out: it is at hand where the first stage is.

Reference: Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training", SOSP 2019, with the files at
github.com/msr-fiddle/pipedream below profiler/image_classification/profiles.
"""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib

import numpy as np

from hetero_mtf.errors import DataError
from hetero_mtf.planning.allocation.problem import ChainProblem
from tools.bench.others.linear import boundary_sums, depth_first_order

_REMEDY = "fetch the file again from profiler/image_classification/profiles of github.com/msr-fiddle/pipedream"
_KEYS = ("forward_compute_time", "backward_compute_time", "activation_size", "parameter_size")
_INPUT = "Input"


@dataclasses.dataclass(frozen=True)
class ProfileChain:
    """A profiled network as a chain of operations.

    Parameters
    ----------
    name : of the network.
    compute_ms : (blocks,) array of float, forward and backward pass on the profiled GPU.
    sent_bytes : (blocks - 1,) array of float, all activations that are read across a boundary, one way.
    """

    name: str
    compute_ms: np.ndarray
    sent_bytes: np.ndarray


def read_profile(path: str | os.PathLike[str]) -> ProfileChain:
    """Return the chain of a profile; its name is that of the folder.

    Raises
    ------
    DataError
        If it is missing or is not of this format.
    """
    source = pathlib.Path(path)
    name = f"{source.parent.name}/{source.name}"
    try:
        lines = source.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        raise DataError(f"{name} cannot be read: {' '.join(str(fault).split())}", _REMEDY) from fault
    nodes, pairs = dict[str, tuple[str, dict[str, float]]](), list[tuple[str, str]]()
    for number, line in enumerate(lines, 1):
        if line.startswith("\t"):
            pairs.append(_edge(line, f"line {number} of {name}"))
        elif line.strip():
            key, entry = _operation(line, f"line {number} of {name}")
            if key in nodes:
                raise DataError(f"line {number} of {name} describes {key} again", _REMEDY)
            nodes[key] = entry
    unknown = sorted({key for pair in pairs for key in pair} - set(nodes))
    if unknown:
        raise DataError(f"the edges of {name} name {', '.join(unknown[:5])}, which no line describes", _REMEDY)
    kept = {key: at for at, key in enumerate(key for key, (kind, _) in nodes.items() if not kind.startswith(_INPUT))}
    if not kept:
        raise DataError(f"{name} has no operation but inputs", _REMEDY)
    figures = [nodes[key][1] for key in kept]
    edges = [(kept[a], kept[b]) for a, b in pairs if a in kept and b in kept]
    order = depth_first_order(len(kept), edges, name)
    sent = boundary_sums(np.argsort(order).tolist(), edges, [entry["activation_size"] for entry in figures], len(order))
    compute = [figures[at]["forward_compute_time"] + figures[at]["backward_compute_time"] for at in order]
    return ProfileChain(source.parent.name, np.array(compute), sent)


def profile_problem(chain: ProfileChain, speeds: tuple[float, ...], bytes_per_s: float) -> ChainProblem:
    """Return the allocation of a profiled network to devices: the largest load is least, communication counts as load, memory is free.

    Activations are sent forth and their gradients back; all links are alike.

    Parameters
    ----------
    speeds : (devices,) relative to the profiled GPU.
    bytes_per_s : of each link.
    """
    devices = len(speeds)
    seconds = 1e-3 * chain.compute_ms / np.array(speeds)[:, None]
    per_byte = np.where(np.eye(devices, dtype=bool), 0.0, 1.0 / bytes_per_s)
    zeros, memory = np.zeros(len(chain.compute_ms)), np.full(devices, math.inf)
    groups, free = tuple((d,) for d in range(devices)), 0 * per_byte
    problem = ChainProblem(seconds, groups, chain.sent_bytes, free, per_byte, zeros, zeros, memory, microbatches=1)
    return dataclasses.replace(problem, objective="largest_load", communication_load=(True,) * devices)


def _operation(line: str, place: str) -> tuple[str, tuple[str, dict[str, float]]]:
    parts = line.strip().split(" -- ")
    if len(parts) < 3:
        raise DataError(f"{place} is not 'NODE -- OPERATION -- FIGURES'", _REMEDY)
    # an operation's own text may have the separator in it
    entries = dict(entry.split("=", 1) for entry in _figures(parts).split(", ") if "=" in entry)
    missing = [key for key in _KEYS if key not in entries]
    if missing:
        raise DataError(f"{place} lacks {', '.join(missing)}", _REMEDY)
    try:
        figures = {key: float(entries[key]) for key in _KEYS}
    except ValueError as fault:
        raise DataError(f"{place} has a figure that is no number, {fault}", _REMEDY) from fault
    wrong = [f"{key}={number:g}" for key, number in figures.items() if not (number >= 0 and math.isfinite(number))]
    if wrong:
        raise DataError(f"{place} has {', '.join(wrong)}", "give finite numbers of at least 0")
    return parts[0], (parts[1], figures)


def _figures(parts: list[str]) -> str:
    return next((part for part in parts[2:] if part.startswith(_KEYS[0])), "")


def _edge(line: str, place: str) -> tuple[str, str]:
    parts = line.strip().split(" -- ")
    if len(parts) != 2:
        raise DataError(f"{place} is not an edge 'NODE -- NODE'", _REMEDY)
    return parts[0], parts[1]
