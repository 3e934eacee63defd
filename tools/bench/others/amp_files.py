"""The published files of AMP: forward seconds of layers on two kinds of GPUs, and trials of training on both.

    known_cost/gpt2_P3_M.npy, gpt2_G4_M.npy   seconds of the forward pass of one sample in each of 30 layers, on M V100 or M T4 together
    results/het_cluster_results.txt           a line for each trial: partition, microbatch, degrees, predicted and measured seconds

The 30 layers are the embedding, a layer that does nothing, 24 transformer blocks, two that do nothing, the output, and one more that does
nothing. A trial that ran out of memory has the seconds "inf". Arrays are read without unpickling.

Reference: Li, Wang, Xing, Zhang, "AMP: Automatically Finding Model Parallel Strategies with Heterogeneity Awareness", NeurIPS 2022, with
the files at github.com/DachengLi1/AMP.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
import re

import numpy as np

from hetero_mtf.errors import DataError

_REMEDY = "fetch the file again from github.com/DachengLi1/AMP"
RESULTS = pathlib.Path("src/results/het_cluster_results.txt")
COSTS = pathlib.Path("src/known_cost")
_NUMBER = r"tensor\(\[([\d.]+)\]\)"
_TRIAL = re.compile(
    r"^Simulating result: \S+, \[([\d, ]+)\], (\d+), "
    rf"\{{'mp_deg': {_NUMBER}, 'dp_deg': {_NUMBER}, 'pp_deg': {_NUMBER}\}}, with p_cost: {_NUMBER}, r_cost: ([\d.]+|inf)\s*$",
    re.MULTILINE,
)
_BATCH = re.compile(r"^gbs:(\d+)$", re.MULTILINE)
_SIZE = re.compile(rf"'(\w+)': {_NUMBER}")


@dataclasses.dataclass(frozen=True)
class Trial:
    """A trial.

    Parameters
    ----------
    partition : (stages + 1,) first layer of each stage, and the number of layers.
    microbatch : samples of a microbatch of one replica.
    tensor, data, pipeline : degrees of parallelism.
    predicted_s : seconds that AMP predicts.
    measured_s : measured seconds; infinite where a GPU ran out of memory.
    """

    partition: tuple[int, ...]
    microbatch: int
    tensor: int
    data: int
    pipeline: int
    predicted_s: float
    measured_s: float

    @property
    def fits(self) -> bool:
        """Whether it ran."""
        return math.isfinite(self.measured_s)


@dataclasses.dataclass(frozen=True)
class Trials:
    """What the results file holds.

    Parameters
    ----------
    batch : samples of a step.
    sizes : of the network: "hidden_size", "sequence_length", "num_layers", "vocab_size".
    trials : in the order of the file.
    """

    batch: int
    sizes: dict[str, int]
    trials: tuple[Trial, ...]


def read_trials(path: pathlib.Path) -> Trials:
    """Return the trials of a results file.

    Raises
    ------
    DataError
        If the file is missing or not of this format, or a trial does not fit the batch or its own partition.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise DataError(f"{path.name} cannot be read: {' '.join(str(fault).split())}", _REMEDY) from fault
    batch, head = _BATCH.search(text), text.partition("\n")[0]
    sizes = {name: int(float(value)) for name, value in _SIZE.findall(head)}
    missing = {"hidden_size", "sequence_length", "num_layers", "vocab_size"} - set(sizes)
    if batch is None or missing:
        raise DataError(f"{path.name} does not say the batch and the sizes of the network", _REMEDY)
    trials = tuple(_trial(found.groups()) for found in _TRIAL.finditer(text))
    if not trials:
        raise DataError(f"{path.name} has no trials", _REMEDY)
    for at, trial in enumerate(trials):
        stages = len(trial.partition) - 1
        rising = all(a < b for a, b in zip(trial.partition, trial.partition[1:])) and trial.partition[0] == 0
        least = min(trial.microbatch, trial.tensor, trial.data, trial.pipeline)
        if stages != trial.pipeline or not rising or least < 1 or int(batch[1]) % (trial.microbatch * trial.data):
            raise DataError(f"trial {at} of {path.name} does not fit its own degrees and the batch of {batch[1]}", _REMEDY)
    return Trials(int(batch[1]), sizes, trials)


def read_costs(folder: pathlib.Path, gpu: str, tensor: int) -> np.ndarray:
    """Return the (layers,) forward seconds of one sample on GPUs that compute each layer together.

    Parameters
    ----------
    folder : of the clone.
    gpu : "P3" or "G4".
    tensor : GPUs that share each layer.

    Raises
    ------
    DataError
        If the file is missing or not of this format.
    """
    path = folder / COSTS / f"gpt2_{gpu}_{tensor}.npy"
    try:
        costs = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as fault:
        raise DataError(f"{path.name} cannot be read: {' '.join(str(fault).split())}", _REMEDY) from fault
    if costs.ndim != 1 or costs.dtype.kind != "f" or not np.isfinite(costs).all() or costs.min(initial=0.0) < 0:
        raise DataError(f"{path.name} has no list of seconds", _REMEDY)
    return np.asarray(costs, float)


def _trial(groups: tuple[str, ...]) -> Trial:
    partition, microbatch, tensor, data, pipeline, predicted, measured = groups
    places = tuple(int(place) for place in partition.split(","))
    return Trial(places, int(microbatch), *(int(float(each)) for each in (tensor, data, pipeline)), float(predicted), float(measured))
