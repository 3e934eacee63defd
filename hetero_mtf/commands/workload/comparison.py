"""The comparison of a plan: a step on each device alone, under the equal split, simpler pipelines and the plan, and the ideal."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shlex
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.commands.options.shared import OptimizerChoice
from hetero_mtf.commands.workload.chosen_optimizer import optimizer_of
from hetero_mtf.commands.workload.first_plan import Prepared
from hetero_mtf.commands.workload.workload import Workload
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.pipeline.baselines import simpler_pipelines
from hetero_mtf.planning.pipeline.plan_prediction import predict_plan
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.report.progress import progress
from hetero_mtf.report.step_time import StepTime, StepTimes
from hetero_mtf.report.table import NOTHING, Table, folded_text, step_time_table
from hetero_mtf.training.timing import time_plans

ROUNDS, STEPS = 7, 3
_EQUAL, _PLANNED = "equal split", "planned"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A plan compared with other plans.

    Parameters
    ----------
    text : the table for people.
    times : what is in it.
    """

    text: str
    times: StepTimes


def compare(workload: Workload, prepared: Prepared, cluster: Any, optimizer: OptimizerChoice, metrics: Mapping[str, float]) -> Comparison:
    """Return the table and what it was made from, measured now: medians of interleaved rounds.

    Parameters
    ----------
    workload : model and data; the steps train on its first batch.
    prepared : the plan and, for predictions, its profile.
    cluster : live cluster.
    optimizer : the optimizer.
    metrics : test metrics of the trained model, added below the times.
    """
    batch_size = prepared.plan.batch_size
    alone = [Plan.single(workload.graph, index, cluster, batch_size) for index in range(len(cluster.devices))]
    equal = Plan.equal(workload.graph, cluster, batch_size)
    simpler = simpler_pipelines(workload.graph, prepared.plan)
    plans = {**{str(index): plan for index, plan in enumerate(alone)}, _EQUAL: equal, **simpler, _PLANNED: prepared.plan}
    x, y = workload.data.first(batch_size)
    with progress("comparing", len(plans) * (ROUNDS + 1)) as advance:
        seconds_of = time_plans(
            workload.model,
            plans,
            cluster,
            x,
            y,
            optimizer=optimizer_of(optimizer),
            loss=workload.loss,
            rounds=ROUNDS,
            steps=STEPS,
            done=advance,
        )
    measured = {name: statistics.median(seconds) for name, seconds in seconds_of.items()}
    typed, rounds = command_line(sys.argv, _started_module()), f"Medians of {ROUNDS} rounds of {STEPS} steps of {len(x)} samples"
    heading = folded_text(f"{typed}\n{rounds}, plans interleaved")
    times = step_times(prepared, alone, {_EQUAL: equal, **simpler}, measured)
    return Comparison(f"{heading}\n\n{_table(times, metrics).text()}", times)


def step_times(prepared: Prepared, alone: Sequence[Plan], others: Mapping[str, Plan], measured: Mapping[str, float]) -> StepTimes:
    """Return measured and predicted seconds side by side.

    Parameters
    ----------
    prepared : the plan and its profile; without a profile only the plan's own prediction is known.
    alone : (devices,) plans that train on one device.
    others : name -> plan: "equal split", and what else a pipeline is set beside.
    measured : seconds/step by "0", "1", ..., the names of the others and "planned".
    """
    costs, plan = Costs(prepared.profile) if prepared.profile is not None else None, prepared.plan
    devices = tuple(StepTime(plan.devices[i], _predicted_s(p, costs), measured[str(i)]) for i, p in enumerate(alone))
    planned = StepTime(f"planned ({plan.strategy})", plan.predicted.step_s if plan.predicted else None, measured[_PLANNED])
    equal, *simpler = (StepTime(name, _predicted_s(other, costs), measured[name]) for name, other in others.items())
    return StepTimes(devices, planned, equal, tuple(simpler))


def command_line(arguments: Sequence[str], module: str | None = None) -> str:
    """Return a process's arguments as one would type them.

    Parameters
    ----------
    arguments : the program and what follows it, as in `sys.argv`.
    module : name of the module that Python was started with by -m; None where it was not.

    Examples
    --------
    >>> command_line(["/opt/bin/hetero-mtf", "train", "--data", "my data"])
    "hetero-mtf train --data 'my data'"
    >>> command_line(["/work/tools/train.py", "--epochs", "2"], "tools.train")
    'python -m tools.train --epochs 2'
    """
    program = pathlib.Path(arguments[0])
    if module is not None:
        name = ["python", "-m", module]
    else:
        name = ["python", os.path.relpath(program)] if program.suffix == ".py" else [program.name]
    return shlex.join([*name, *arguments[1:]])


def _started_module() -> str | None:
    """Return the name of the module that Python was started with by -m; None where it was not."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return None if spec is None else spec.name.removesuffix(".__main__")


def _predicted_s(plan: Plan, costs: Costs | None) -> float | None:
    predicted = predict_plan(costs, plan) if costs is not None else None
    return (predicted.step_s or None) if predicted is not None else None


def _table(times: StepTimes, metrics: Mapping[str, float]) -> Table:
    table = step_time_table(times)
    rows = tuple((f"test {name.replace('_', ' ')}", NOTHING, f"{value:.4f}", "") for name, value in metrics.items() if name != "loss")
    return dataclasses.replace(table, rows=(*table.rows, *rows))
