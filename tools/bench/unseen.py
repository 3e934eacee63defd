"""Claim: on networks that nobody chose a refined plan is never slower than the fastest device alone, and near the communication ceiling.

Networks are drawn by seeds that follow from the hash of the last commit that touched hetero_mtf, so none can be chosen and the program
cannot be tuned to them; two fixed networks join them. Each is calibrated by default settings on emulated devices, planned by auto and
refined; then every device alone, equal batches, auto's plan before and after refinement are open side by side and take turns. A figure is
the median over rounds. efficiency = ideal / measured, ideal = 1 / sum over devices of 1 / T_d, T_d the step of device d alone; error =
predicted / measured - 1. The communication ceiling is the efficiency of compute that is balanced perfectly, with what layouts send at the
measured rate, of the layouts for which it is largest; the ceiling together counts that devices of a host slow each other
(tools/bench/comparison/ceiling.py). A network that fails is shown with its reason.

    python -m tools.bench.unseen [--json unseen.json [--resume]]
    python -m tools.bench.unseen --seeds 101,102 --no-fixed --shares 1.0,0.5 --rounds 2 --results -
"""

from __future__ import annotations

import dataclasses
import functools
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

import hetero_mtf as hm
from hetero_mtf.devices.records import LIMITS
from hetero_mtf.errors import HeteroError
from tools.bench.comparison.accuracy import distinct
from tools.bench.comparison.ceiling import communication_ceilings
from tools.bench.comparison.commit_seeds import FOLDER, last_commit, seed_of
from tools.bench.comparison.drawn import drawn_network
from tools.bench.comparison.networks import NETWORKS
from tools.bench.comparison.options import limit_option, rounds_option
from tools.bench.comparison.side_by_side import TrainingTask
from tools.bench.comparison.unseen_rows import AFTER, ALONE, BEFORE, EQUAL, TABLE, row
from tools.results.output import Cases, Output, output_options
from tools.results.publication import ROOT, shown

FIXED = ("vgg8", "six-convolutions")
FIXED_BATCH = 32
CLUSTERS: Mapping[str, int | None] = {"1.0,0.5": None, "0.8,0.4,0.4": 5, "1.0,0.33": 5}  # shares -> drawn networks there, None for all
ROUND_S = 0.4  # seconds of a plan in one round, more than emulated devices work ahead of their share
STEPS = 2, 16  # in a round, at least and at most
PUBLISHED = 20  # drawn networks, at least, of a run that is published


@dataclasses.dataclass(frozen=True)
class UnseenNetwork:
    """A network of the table.

    Parameters
    ----------
    title : one line for the table.
    seed : eight hexadecimal digits, or what else it was drawn by; "fixed" of one that was not drawn.
    batch : samples per step.
    build : returns the Keras model.
    """

    title: str
    seed: str
    batch: int
    build: Callable[[], Any]

    def task(self) -> TrainingTask:
        """Return what is trained."""
        return TrainingTask(self.build(), self.batch)


@dataclasses.dataclass(frozen=True)
class UnseenPace:
    """How long to measure.

    Parameters
    ----------
    rounds : rounds that count; a figure is their median.
    refine_s : seconds that a refinement may take; 0 for none.
    budget_s : seconds that a calibration may take; None for the default.
    """

    rounds: int
    refine_s: float
    budget_s: float | None


def drawn(seed: int, text: str) -> UnseenNetwork:
    """Return the network of a seed, with the text that stands for the seed in the table."""
    network = drawn_network(seed)
    return UnseenNetwork(network.description, text, network.batch, network.build)


def fixed(name: str) -> UnseenNetwork:
    """Return a network of `NETWORKS`."""
    return UnseenNetwork(NETWORKS[name].title, "fixed", FIXED_BATCH, NETWORKS[name].make)


def cases(networks: Sequence[UnseenNetwork], clusters: Mapping[str, int | None]) -> list[tuple[UnseenNetwork, str]]:
    """Return the pairs of network and cluster to measure, cluster after cluster.

    Parameters
    ----------
    networks : the drawn ones in order, then fixed ones.
    clusters : shares as text -> how many of the drawn networks are measured there, None for all; fixed ones are measured on all.
    """
    numbers = {network.seed: number for number, network in enumerate(networks)}
    return [
        (network, cluster)
        for cluster, most in clusters.items()
        for network in networks
        if most is None or network.seed == "fixed" or numbers[network.seed] < most
    ]


def limited(clusters: Mapping[str, int | None], limit: str) -> dict[str, int | None]:
    """Return clusters by their text with what their shares limit.

    Examples
    --------
    >>> limited({"1.0,0.5": None}, "compute")
    {'1.0,0.5:compute': None}
    """
    return {cluster if limit == LIMITS[0] else f"{cluster}:{limit}": most for cluster, most in clusters.items()}


def refined(task: TrainingTask, plan: Any, profile: Any, cluster: Any, time_limit_s: float) -> Any:
    """Return the Refinement of a plan; None where it is not wanted."""
    if time_limit_s <= 0:
        return None
    return hm.refine(plan, profile, task.model, cluster, **task.settings, time_limit_s=time_limit_s)


def equal_plan(task: TrainingTask, cluster: Any) -> Any:
    """Return the plan of equal batches, as other libraries split; of equal filters where the batch cannot be split."""
    try:
        return hm.Plan.batch(task.model, [1.0] * len(cluster.devices), cluster, task.batch)
    except HeteroError:
        return hm.Plan.equal(task.model, cluster, task.batch)


def run(network: Any, shares: str, pace: UnseenPace) -> dict[str, Any]:
    """Return what was predicted and measured of a network on a cluster.

    Parameters
    ----------
    network : what is trained: UnseenNetwork, or another record with a title, a seed, a batch and a task.
    shares : share of a core of each emulated device, as text; with ":compute" the shares limit only threads that compute.
    pace : how long to measure.
    """
    import keras

    keras.utils.clear_session()  # the graphs of the network before
    task = network.task()
    with hm.Cluster.parse(f"emulate:{shares}") as cluster:
        start_s = time.perf_counter()
        profile = hm.calibrate(cluster, task.model, task.batch, optimizer=task.settings["optimizer"], budget_s=pace.budget_s)
        calibration_s = time.perf_counter() - start_s
        before = hm.plan(profile)
        refinement = refined(task, before, profile, cluster, pace.refine_s)
        planned = {BEFORE: before} if refinement is None else {BEFORE: before, AFTER: refinement.plan}
        alone = {f"{ALONE} {d}": hm.Plan.single(task.model, d, cluster, task.batch) for d in range(len(cluster.devices))}
        rounds_s = measure(task, {**alone, EQUAL: equal_plan(task, cluster), **planned}, cluster, pace.rounds)
        method = cluster.method
    alone_s = [statistics.median(rounds_s[name]) for name in alone]
    corrected = profile if refinement is None else refinement.profile
    return {
        "limited_by": method,
        "calibration_s": calibration_s,
        "refinement_s": None if refinement is None else refinement.seconds,
        "strategies": {name: plan.strategy for name, plan in planned.items()},
        "predicted_s": {name: plan.predicted.step_s for name, plan in planned.items()},
        "rounds_s": rounds_s,
        "ceilings": communication_ceilings(corrected, planned, alone_s),
        "together_ceilings": communication_ceilings(corrected, planned, alone_s, together=True),
        "runs": [] if refinement is None else [_run_record(each) for each in refinement.runs],
        "plans": {name: plan.to_json() for name, plan in planned.items()},
    }


def measure(task: TrainingTask, plans: Mapping[str, Any], cluster: Any, rounds: int) -> dict[str, list[float]]:
    """Return name -> (rounds,) seconds per step; plans that are the same are measured once.

    Parameters
    ----------
    task : what they train.
    plans : name -> Plan, all open together, in turns; those with a prediction say how many steps a round takes.
    cluster : live cluster.
    rounds : rounds that count.
    """
    from hetero_mtf.training.timing import time_plans

    same = distinct(plans)
    least_s = min(plan.predicted.step_s for plan in plans.values() if plan.predicted is not None)
    steps = min(max(math.ceil(ROUND_S / least_s), STEPS[0]), STEPS[1])
    times = time_plans(task.model, {name: plans[name] for name in same}, cluster, *task.data, **task.settings, rounds=rounds, steps=steps)
    measured_s = {other: times[name] for name, others in same.items() for other in others}
    return {name: measured_s[name] for name in plans}


def _run_record(each: Any) -> dict[str, Any]:
    """Return what is kept of a plan that refinement tried."""
    times = {"step_s": list(each.step_s), "predicted_s": each.predicted_s, "first_predicted_s": each.first_predicted_s}
    return {"strategy": each.plan.strategy, **times}


def attempted(network: Any, cluster: str, measured: Callable[[Any, str], dict[str, Any]]) -> dict[str, Any]:
    """Return a case: its name with what was measured, or with the reason why it failed.

    Parameters
    ----------
    network, cluster : of the case.
    measured : as `run`, but for the pace.
    """
    head = {"network": network.title, "seed": network.seed, "batch": network.batch, "cluster": cluster}
    try:
        return {**head, **measured(network, cluster)}
    except Exception as fault:  # whatever it is, the network stays in the table
        lines = str(fault).strip().splitlines()
        return {**head, "failure": f"{type(fault).__name__}: {lines[0] if lines else 'no message'}"}


def unfinished(done: int, wanted: int) -> list[str]:
    """Return the note of a run of which cases are left.

    Parameters
    ----------
    done, wanted : numbers of cases.
    """
    return [f"The run was ended after {done} of {wanted} cases, in their order."] if done < wanted else []


def networks_of(seeds: str | None, count: int, with_fixed: bool) -> tuple[list[UnseenNetwork], str]:
    """Return the networks of a run, and a sentence that says where their seeds are from.

    Parameters
    ----------
    seeds : numbers separated by commas; None for those that follow from the last commit of the program.
    count : networks to draw by the commit.
    with_fixed : whether `FIXED` join them.
    """
    others = [fixed(name) for name in FIXED] if with_fixed else []
    if seeds is not None:
        numbers = [int(number) for number in seeds.split(",")]
        return [*(drawn(number, str(number)) for number in dict.fromkeys(numbers)), *others], "The seeds were named by --seeds."
    commit = last_commit(ROOT)
    numbers = [seed_of(commit, number) for number in range(1, count + 1)]
    rule = "seed k is the first 8 hexadecimal digits of the SHA-256 of COMMIT:k, k from 1"
    origin = f"Seeds 1 to {count} follow from `{commit}`, the last commit that touched `{FOLDER}`: {rule}."
    return [*(drawn(number, f"{number:08x}") for number in numbers), *others], origin


@click.command(help=__doc__)
@click.option("--networks", "count", type=click.IntRange(0), default=20, show_default=True, help="Networks to draw by the last commit.")
@click.option("--seeds", help="Seeds of the networks instead, such as 101,102; the results then say that the run is not published.")
@click.option("--fixed/--no-fixed", "with_fixed", default=True, show_default=True, help="Whether the fixed networks take part.")
@click.option(
    "--shares", multiple=True, help="Shares of a core of the devices, several times for more.  [default: 1.0,0.5; for five also others]"
)
@limit_option
@rounds_option(5)
@click.option("--refine-time", "refine_s", default=30.0, show_default=True, help="Seconds that each refinement may take; 0 for none.")
@click.option("--budget", "budget_s", type=float, help="Seconds that each calibration may take.  [default: that of hm.calibrate]")
@output_options(after="network", resumes=True)
def main(
    count: int,
    seeds: str | None,
    with_fixed: bool,
    shares: tuple[str, ...],
    limit: str,
    rounds: int,
    refine_s: float,
    budget_s: float | None,
    output: Output,
) -> None:
    """Measure all cases, write the tables after each and print them."""
    try:
        networks, origin = networks_of(seeds, count, with_fixed)
    except HeteroError as fault:
        raise click.ClickException(str(fault)) from fault
    published = seeds is None and count >= PUBLISHED and with_fixed and not shares and limit == LIMITS[0] and budget_s is None
    notes = [f"{'Published run' if published else 'Not a published run'}. {origin}"]
    wanted = cases(networks, limited(dict.fromkeys(shares) if shares else CLUSTERS, limit))
    measure = functools.partial(run, pace=UnseenPace(rounds, refine_s, budget_s))
    measured = Cases(output, all_earlier=False, further=lambda _: {"notes": notes})
    for number, (network, cluster) in enumerate(wanted, 1):
        if not measured.find(network=network.title, seed=network.seed, cluster=cluster):
            title = f"{number} of {len(wanted)}, {network.seed} at {cluster}"
            measured.measure(title, functools.partial(attempted, network, cluster, measure))
        output.publish(TABLE, [row(case) for case in measured.done], [*notes, *unfinished(number, len(wanted))])
    click.echo(shown(TABLE, [row(case) for case in measured.done], notes))


if __name__ == "__main__":
    main()
