"""Claim: a training that tries plans as its steps loses little beside what was best in hindsight, and nothing beside one device.

The policy of `measure="steps"` in simulation. How steps scatter, how far rough profiles are from layers, and what builds, solutions, traces
and moves take is drawn from recordings of real trainings (`record_traces`), each of which the simulation is first compared with. Then
clusters of two to five devices are drawn, each with three trainings of 20 s to an hour of one device, and trainings of 60, 120 and 300 s.
Hindsight is the better of one device and of the best plan from the first step on, after as long a build as the training had.

    python -m tools.bench.start.regret [--clusters 350] [--traces FOLDER] [--jobs 2] [--json regret.json] [--resume]

No TensorFlow is loaded.
"""

from __future__ import annotations

import concurrent.futures
import functools
import math
import multiprocessing
import pathlib
from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from tools.bench.start.drawn_world import LENGTH_S, DrawnWorld, best_s, drawn_case
from tools.bench.start.recorded_world import RecordedPolicy, RecordedWorld
from tools.bench.start.regret_tables import MET, REGRET, SOON, met_rows, regret_rows, soon_rows
from tools.bench.start.rough_errors import RoughErrors
from tools.bench.start.simulated_start import SimulatedStart, simulated
from tools.bench.start.start_networks import start_networks
from tools.bench.start.start_trace import FOLDER, StartTrace, load_all
from tools.bench.start.temper import Temper
from tools.results.output import Cases, Output, output_options

LENGTHS_EACH = 3  # drawn of each cluster
FIXED_S = (60.0, 120.0, 300.0)
NOISES = 5  # drawn beside each recording


def met(traces: Sequence[StartTrace]) -> list[dict[str, Any]]:
    """Return each recording with what the simulation makes of it.

    Parameters
    ----------
    traces : the recordings.
    """
    records = []
    for at, trace in enumerate(traces):
        own = _repeated(trace)
        others = [other for place, other in enumerate(traces) if place != at] or [trace]
        drawn_s = [_repeated(trace, Temper.of(others), seed).trained_s for seed in range(NOISES)]
        recorded = [(event.step, event.plan) for event in trace.events if event.name == "move"]
        records.append(
            {
                "network": trace.network,
                "shares": list(trace.shares),
                "steps": trace.steps,
                "recorded_s": trace.trained_s,
                "own_s": own.trained_s,
                "same_moves": recorded == [(move.step, move.plan.built_from) for move in own.moves],
                "recorded_moves": len(recorded),
                "drawn_s": drawn_s,
                "now_s": simulated(RecordedWorld(trace)).trained_s,
            }
        )
    return records


def _repeated(trace: StartTrace, temper: Temper | None = None, seed: int = 0) -> SimulatedStart:
    """Return a recording as it is simulated with what was decided in it; arguments as of `RecordedWorld`."""
    world = RecordedWorld(trace, temper, seed)
    return simulated(world, RecordedPolicy(world))


def trained(world: DrawnWorld, length_s: float) -> dict[str, Any]:
    """Return the seconds of a training in a world, of one device and of hindsight, each with the build of its first plan.

    Parameters
    ----------
    world : the world.
    length_s : what the steps take one device.
    """
    world.set_length(length_s)
    outcome = simulated(world)
    trials = outcome.known.trials
    shortest_s = best_s(world, [trial.plan for trial in trials])
    one_s = world.first_build_s(on_one=True) + world.total_s(world.single_s)
    best_total_s = world.first_build_s() + world.total_s(shortest_s)
    return {
        "length_s": length_s,
        "is_known": world.length_is_known,
        "steps": world.steps,
        "policy_s": world.first_build_s() + outcome.trained_s + outcome.waited_s,
        "waited_s": outcome.waited_s,
        "one_s": one_s,
        "hindsight_s": min(one_s, best_total_s),
        "gain": world.single_s / min(shortest_s, world.single_s),
        "trials": [[t.plan.strategy, len(t.plan.used), t.predicted_s, t.median_s, world.true_s(t.plan)] for t in trials if t.step_s],
        "moves": [move.step for move in outcome.moves],
        "final_s": world.true_s(outcome.known.trial.plan),
        "end": outcome.end,
        "ended_at": outcome.ended_at,
    }


def cluster_record(seed: int, folder: pathlib.Path) -> dict[str, Any]:
    """Return the trainings of a drawn cluster.

    Parameters
    ----------
    seed : of all that is drawn.
    folder : of the recordings.
    """
    temper, errors = _told(folder)
    case = drawn_case(seed, list(start_networks().values()), errors)
    world = DrawnWorld(case, temper, errors.plan)
    generator = np.random.default_rng([seed, 4])
    drawn_s = [case.length_s, *np.exp(generator.uniform(*map(math.log, LENGTH_S), LENGTHS_EACH - 1)).tolist()]
    head = {"seed": seed, "network": case.network.name, "devices": len(case.rough.cluster.devices)}
    runs = [trained(world, length_s) for length_s in drawn_s]
    world.length_is_known = True
    return {**head, "drawn": runs, "fixed": [trained(world, length_s) for length_s in FIXED_S]}


@functools.cache
def _told(folder: pathlib.Path) -> tuple[Temper, RoughErrors]:
    traces = load_all(folder)
    return Temper.of(traces), RoughErrors.of(traces, {name: network.graph for name, network in start_networks().items()})


def notes(traces: Sequence[StartTrace], records: Sequence[dict[str, Any]]) -> list[str]:
    """Return what the tables are of.

    Parameters
    ----------
    traces, records : the recordings, and the drawn clusters.
    """
    devices = sum(record["devices"] for record in records)
    drawn = f"{len(records)} drawn clusters of {devices} devices in all"
    return [f"{drawn}; noise, errors of rough profiles, builds and solutions as in {len(traces)} recordings."]


@click.command(help=__doc__)
@click.option("--clusters", default=350, help="Clusters that are drawn, from seed 1.")
@click.option("--traces", "folder", type=click.Path(path_type=pathlib.Path), default=FOLDER, help="Of the recordings.")
@click.option("--jobs", default=2, help="Processes.")
@output_options(after="cluster", resumes=True)
def main(clusters: int, folder: pathlib.Path, jobs: int, output: Output) -> None:
    """Simulate, and print the tables."""
    traces, cases = load_all(folder), Cases(output, all_earlier=False)
    output.report(MET, met_rows(met(traces)))
    missing = [seed for seed in range(1, clusters + 1) if cases.find(seed=seed) is None]
    with concurrent.futures.ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        for record in pool.map(functools.partial(cluster_record, folder=folder), missing):
            cases.add(record)
    output.report(REGRET, regret_rows(cases.done), notes(traces, cases.done))
    output.report(SOON, soon_rows(cases.done), notes(traces, cases.done))


if __name__ == "__main__":
    main()
