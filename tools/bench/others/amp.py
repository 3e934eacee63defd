"""Claim: steps of GPT-2 on V100 and T4 together, measured by others, are predicted from the forward times of each GPU alone.

The 53 trials are DeepSpeed's on three hosts of four V100 and one of four T4, by degrees of tensor, data and pipeline parallelism (AMP,
NeurIPS 2022). Fetch them: git clone https://github.com/DachengLi1/AMP runs/others/AMP. A backward pass is taken to be twice the forward
pass, as AMP does; bandwidths are those of its cluster file; activations are float16, gradients are exchanged in float32, as in its
settings. GPUs that share each layer are one device. Nothing is fitted to a trial.

    python -m tools.bench.others.amp [--folder DIR]
"""

from __future__ import annotations

import itertools
import pathlib
import statistics
from collections.abc import Sequence
from typing import Any

import click

from hetero_mtf.errors import DataError, HeteroError
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts, Pipeline, predict_pipeline
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.schedule.execution import Execution
from tools.bench.others.amp_files import RESULTS, Trial, Trials, read_costs, read_trials
from tools.bench.others.measured_chain import MeasuredDevice, MeasuredLayer, chain_profile, even_stage, tensor_peaks
from tools.results.output import Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

FOLDER = pathlib.Path("runs/others/AMP")
HOSTS, GPUS = ("P3", "P3", "P3", "G4"), 4
GPU_BYTES = 16 * 2**30  # of both kinds
BETWEEN, WITHIN = {"P3": 10e9 / 8, "G4": 50e9 / 8}, {"P3": 170e9 / 8, "G4": 50e9 / 8}  # bytes/s, `src/het_cluster.py`
BACKWARD = 2.0  # times the forward pass
OFF, NEAR = 0.15, 0.05
BLOCKS, OUTPUT = range(2, 26), 28  # of the 30 layers
ATTENTION_HEADS = 16

FORM = TableForm(
    "others_amp",
    "Trials of GPT-2 on 12 V100 and 4 T4, measured by others, and predicted",
    (
        Column("degrees", "tensor x data x pipeline"),
        Column("microbatch", "microbatch", ".0f"),
        Column("partition", "first layers"),
        Column("measured_s", "measured s", ".2f"),
        Column("predicted_s", "predicted s", ".2f"),
        Column("error", "error", "+.1%"),
        Column("amp_error", "error of AMP", "+.1%"),
        Column("peak_gib", "predicted peak GiB", ".1f"),
        Column("memory", "out of memory"),
    ),
)


def layers_of(sizes: dict[str, int], tensor: int) -> list[MeasuredLayer]:
    """Return the 30 layers of the network, as GPUs that share each layer hold them together.

    Parameters
    ----------
    sizes : as in `Trials`.
    tensor : how many GPUs share each layer.

    Notes
    -----
    A block of h units over s places with a heads keeps s h (10 + 24 / t + 5 a s / (h t)) bytes of float16 for a sample on each of t GPUs:
    Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", MLSys 2023.
    """
    h, s, v = sizes["hidden_size"], sizes["sequence_length"], sizes["vocab_size"]
    kept_bytes = tensor * s * h * (10 + 24 / tensor + 5 * ATTENTION_HEADS * s / (h * tensor))
    block = {"weights": 12 * h * h, "output": s * h, "kept": int(kept_bytes / 2) - s * h}
    layers = []
    for at in range(OUTPUT + 2):
        figures = {"weights": 0, "output": s * h}
        if at == 0:
            figures["weights"] = h * v
        elif at in BLOCKS:
            figures = block
        elif at == OUTPUT:
            figures = {"weights": h * v, "output": s * v}
        elif at > OUTPUT:
            figures["output"] = s * v
        layers.append(MeasuredLayer(f"layer{at}", str(at), dtype="float16", **figures))
    return layers


def profile_of(folder: pathlib.Path, found: Trials, tensor: int) -> Profile:
    """Return the profile of the four hosts, some GPUs of which share each layer.

    Raises
    ------
    DataError
        If a file is missing or damaged.
    """
    costs = {gpu: read_costs(folder, gpu, tensor) for gpu in sorted(set(HOSTS))}
    layers = layers_of(found.sizes, tensor)
    if any(len(seconds) != len(layers) for seconds in costs.values()) or GPUS % tensor:
        raise DataError(f"the costs of {tensor} GPUs are not those of {len(layers)} layers", "fetch the files again")
    hosts = [host for host in range(len(HOSTS)) for _ in range(GPUS // tensor)]
    devices = []
    for at, host in enumerate(hosts):
        seconds = {str(k): {1: (float(s), BACKWARD * float(s), 0.0)} for k, s in enumerate(costs[HOSTS[host]])}
        devices.append(MeasuredDevice(f"{HOSTS[host]}x{tensor}:{at}", f"host{host}", tensor * GPU_BYTES, seconds))
    links = {(a, b): (0.0, _bytes_per_s(hosts[a], hosts[b])) for a, b in itertools.permutations(range(len(hosts)), 2)}
    return chain_profile(layers, devices, links, found.batch, found.sizes["sequence_length"], "adam")


def predicted(costs: MicrobatchCosts, trial: Trial) -> tuple[float, float]:
    """Return the predicted seconds of a trial's step, and the most bytes of a GPU.

    Parameters
    ----------
    costs : of `profile_of` the trial's tensor parallel degree.
    trial : its stages have consecutive devices, the replicas of a stage beside each other.
    """
    profile = costs.profile
    stages = []
    for at, (begin, end) in enumerate(itertools.pairwise(trial.partition)):
        layers = [*([0] if at == 0 else []), *(layer + 1 for layer in range(begin, end))]
        stages.append(even_stage(profile, layers, range(at * trial.data, (at + 1) * trial.data)))
    microbatches = profile.batch_size // (trial.microbatch * trial.data)
    each = costs.at(trial.microbatch * trial.data).profile
    if trial.pipeline == 1 and microbatches == 1:
        step_s, in_flight = predict(costs.full_batch, stages[0], memory=False).step_s, (1,)
    else:
        prediction, line = predict_pipeline(costs, Pipeline(tuple(stages), Execution("1f1b", microbatches)), rendezvous=True)
        step_s, in_flight = prediction.step_s, line.in_flight
    return step_s, max(tensor_peaks(each, stages, in_flight)) / trial.tensor


def figures(trial: Trial, step_s: float, peak_bytes: float) -> dict[str, Any]:
    """Return the figures of a trial."""
    said = peak_bytes > GPU_BYTES
    record = {
        "degrees": f"{trial.tensor} x {trial.data} x {trial.pipeline}",
        "microbatch": trial.microbatch,
        "partition": " ".join(map(str, trial.partition[:-1])),
        "predicted_s": step_s,
        "peak_gib": peak_bytes / 2**30,
        "memory": {(True, True): "ran out, predicted", (True, False): "predicted, ran", (False, True): "ran out, not predicted"}.get(
            (said, not trial.fits), "-"
        ),
    }
    if trial.fits:
        measured = {"measured_s": trial.measured_s, "error": step_s / trial.measured_s - 1}
        record |= {**measured, "amp_error": trial.predicted_s / trial.measured_s - 1}
    return record


def rows(records: Sequence[dict[str, Any]]) -> list[Row]:
    """Return the rows of the table."""
    return [table_row(record) for record in records]


def verdicts(records: Sequence[dict[str, Any]]) -> list[str]:
    """Return the errors, what was said of memory, and what the first choice takes beside the best trial."""
    ran = [record for record in records if "measured_s" in record]
    said = []
    for name, key in (("Predicted", "error"), ("Predicted by AMP", "amp_error")):
        errors = [abs(record[key]) for record in ran]
        median = f"median error {statistics.median(errors):.1%} (wanted {OFF:.0%})"
        said.append(f"{name}: {median}, worst {max(errors):.1%} of {len(ran)} trials.")
    by_degree = [(degree, [abs(each["error"]) for each in ran if int(each["degrees"].split()[0]) == degree]) for degree in (1, 2, 4)]
    medians = ", ".join(f"{degree}: {statistics.median(errors):.1%} of {len(errors)}" for degree, errors in by_degree if errors)
    said.append(f"Median error by GPUs that share each layer: {medians}.")
    out = [record["memory"] for record in records]
    lost = sum("measured_s" not in record for record in records)
    text = f"Out of memory: {out.count('ran out, predicted')} of {lost} trials named, {out.count('predicted, ran')} others besides"
    first = min((record for record in records if record["peak_gib"] * 2**30 <= GPU_BYTES), key=lambda record: record["predicted_s"])
    best_s = min(record["measured_s"] for record in ran)
    taken = f"{first['measured_s'] / best_s - 1:.1%} more than the best" if "measured_s" in first else "more memory than there is"
    return [*said, f"{text}.", f"The first choice takes {taken} (wanted {NEAR:.0%})."]


def _bytes_per_s(here: int, there: int) -> float:
    return WITHIN[HOSTS[here]] if here == there else min(BETWEEN[HOSTS[here]], BETWEEN[HOSTS[there]])


@click.command(help=__doc__)
@click.option("--folder", type=click.Path(path_type=pathlib.Path), default=FOLDER, show_default=True, help="The clone.")
@output_options()
def main(folder: pathlib.Path, output: Output) -> None:
    """Predict the trials, and print the table."""
    try:
        found = read_trials(folder / RESULTS)
        costs = {degree: MicrobatchCosts(profile_of(folder, found, degree)) for degree in sorted({trial.tensor for trial in found.trials})}
        records = [figures(trial, *predicted(costs[trial.tensor], trial)) for trial in found.trials]
    except HeteroError as fault:
        raise click.ClickException(str(fault)) from fault
    notes = verdicts(records)
    output.report(FORM, rows(records), notes)
    output.record({"trials": records, "notes": notes})


if __name__ == "__main__":
    main()
