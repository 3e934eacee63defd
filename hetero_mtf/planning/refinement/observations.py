"""Observations: the traced seconds of a layer's pass beside those that its curve predicts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.records import LayerLayout, Stage
from hetero_mtf.planning.profile.curve import ALONE
from hetero_mtf.planning.refinement.plan_run import PlanRun


class Observation(NamedTuple):
    """One traced pass of one layer on one device.

    Parameters
    ----------
    layer : index of the first layer of its kind.
    device : index of the first device of the cluster with its TensorFlow device.
    split : one of `SPLITS`.
    step_pass : "forward", "backward" or "update".
    predicted_s : seconds by the curve.
    traced_s : seconds in a traced step; what tracing adds is between operations, not in them.
    """

    layer: int
    device: int
    split: str
    step_pass: str
    predicted_s: float
    traced_s: float

    @property
    def log_ratio(self) -> float:
        """ln(traced / predicted)."""
        return math.log(self.traced_s / self.predicted_s)


def split_of(entry: LayerLayout, step_pass: str, undisturbed: bool = False) -> str:
    """Return by what a layer is split, as its curve and factor are chosen.

    Parameters
    ----------
    entry : its layout.
    step_pass : an update of a layer whose batch is split is that of all its weights.
    undisturbed : whether the other devices of the host are idle.
    """
    if entry.layout in ("batch", "space"):
        return "whole" if step_pass == "update" else {"batch": "samples", "space": "positions"}[entry.layout]
    if entry.layout == "replicated":
        return ALONE if undisturbed else "whole"
    return "units"


def observations(costs: Costs, runs: Sequence[PlanRun]) -> list[Observation]:
    """Return what the traces of some runs tell of the layers.

    Parameters
    ----------
    costs : Costs of the profile without corrections.
    runs : runs of plans of one stage, and of pipelines, whose layers are left out: they run for each microbatch.
    """
    return [entry for run in runs if len(run.plan.stages) == 1 and run.plan.microbatches == 1 for entry in _of_run(costs, run)]


def _of_run(costs: Costs, run: PlanRun) -> Iterator[Observation]:
    stage = run.plan.stages[0]
    predicted = _predicted(costs, stage)
    for trace in run.traces:
        for device, layer, step_pass, compute_s in trace.layers:
            key = first_on(costs, device), layer, step_pass
            if key in predicted and compute_s > 0:
                split, predicted_s = predicted[key]
                yield Observation(costs.alike[layer], key[0], split, step_pass, predicted_s, compute_s)


def _predicted(costs: Costs, stage: Stage) -> dict[tuple[int, int, str], tuple[str, float]]:
    """Return the split and seconds of each pass that the curves give a time, by (device, layer, pass)."""
    seconds_of: dict[tuple[int, int, str], tuple[str, float]] = {}
    for entry in stage.layouts:
        passes = ("forward", "backward") if costs.trains_before[entry.layer] else ("forward",)
        owns = ("update",) if costs.graph.owner(entry.layer) == entry.layer else ()
        for step_pass in (*passes, *owns):
            spent = costs.spent_on(entry, stage, step_pass).tolist()
            for device, spent_s, undisturbed in zip(stage.devices, spent, costs.undisturbed(stage.devices).tolist()):
                key = first_on(costs, device), entry.layer, step_pass
                earlier_s = seconds_of[key][1] if key in seconds_of else 0.0
                if spent_s > 0:
                    seconds_of[key] = split_of(entry, step_pass, undisturbed), earlier_s + spent_s
    return seconds_of


def first_on(costs: Costs, device: int) -> int:
    """Return the first device of the cluster that is on the same TensorFlow device.

    Parameters
    ----------
    device : index of a device.
    """
    records = costs.profile.cluster.devices
    return next(index for index, record in enumerate(records) if record.tf_device == records[device].tf_device)
