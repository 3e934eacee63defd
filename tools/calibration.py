"""Claim: a calibration of 45 s predicts as well as a thorough one, every term of the predictor lessens its error, and refinement halves it.

Each network is calibrated on emulated devices by default settings and thoroughly (--budget inf), and its plan is refined from the default
profile. Then every device alone, the plan of every strategy that either profile gives, and the refined plan are open side by side and take
turns; a figure is the median over rounds. Each plan is predicted by the default profile, by the thorough one, by the default one without
one of the predictor's terms at a time, and by the refined one, which has seen some of the plans run and others never. error =
predicted / measured - 1.

    python -m tools.calibration [--json calibration.json [--resume]]
    python -m tools.calibration --seeds 101 --no-fixed --results -
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Any

import click

import hetero_mtf as hm
from tools.bench.comparison.accuracy import distinct
from tools.bench.comparison.calibration_rows import CASES, TERM_ERRORS, row, term_rows
from tools.bench.comparison.predictor_terms import TERMS, predicted_s, without
from tools.bench.comparison.side_by_side import TrainingTask
from tools.bench.unseen import FIXED, UnseenNetwork, attempted, drawn, fixed, measure
from tools.results.output import Cases, Output, output_options
from tools.results.publication import shown

SEEDS = "101,102,103"
CLUSTERS = ("1.0,0.5", "0.8,0.4,0.4")
ROUNDS = 5
REFINE_S = 30.0


def cases(networks: Sequence[UnseenNetwork]) -> list[tuple[UnseenNetwork, str]]:
    """Return the pairs of network and cluster: all on the first cluster, the first fixed network on the others too.

    Parameters
    ----------
    networks : drawn and fixed ones.
    """
    first = [network for network in networks if network.seed == "fixed"][:1]
    return [(network, CLUSTERS[0]) for network in networks] + [(network, cluster) for cluster in CLUSTERS[1:] for network in first]


def run(network: UnseenNetwork, shares: str) -> dict[str, Any]:
    """Return seconds of both calibrations and of the refinement, and of each plan what was predicted and measured.

    Parameters
    ----------
    network : what is trained.
    shares : share of a core of each emulated device, as text.
    """
    import keras

    from hetero_mtf.planning.choose import candidate_plans
    from hetero_mtf.planning.cost.layer_cost import Costs

    keras.utils.clear_session()
    task = TrainingTask(network.build(), network.batch)
    with hm.Cluster.parse(f"emulate:{shares}") as cluster:
        profiles, seconds = {}, {}
        for name, budget_s in (("default", None), ("thorough", float("inf"))):
            start_s = time.perf_counter()
            profiles[name] = hm.calibrate(cluster, task.model, task.batch, optimizer=task.settings["optimizer"], budget_s=budget_s)
            seconds[name] = time.perf_counter() - start_s
        refinement = hm.refine(
            hm.plan(profiles["default"]), profiles["default"], task.model, cluster, **task.settings, time_limit_s=REFINE_S
        )
        plans = {f"alone {d}": hm.Plan.single(task.model, d, cluster, task.batch) for d in range(len(cluster.devices))}
        for name, profile in profiles.items():
            plans |= {f"{plan.strategy} {name}": plan for plan in candidate_plans(Costs(profile))}
        plans["refined"] = refinement.plan
        plans = {name: plans[name] for name in distinct(plans)}
        rounds_s = measure(task, plans, cluster, ROUNDS)
    tried = [each.plan.built_from for each in refinement.runs]
    by_profile = {**profiles, "refined": refinement.profile}
    return {
        "calibration_s": seconds,
        "refinement_s": refinement.seconds,
        "gain": refinement.gain,
        "plans": {name: plan.built_from in tried for name, plan in plans.items()},
        "rounds_s": rounds_s,
        "predicted_s": {name: predicted_s(profile, list(plans.values())) for name, profile in by_profile.items()},
        "without_s": {term: predicted_s(without(profiles["default"], term), list(plans.values())) for term in TERMS},
        "devices": len(cluster.devices),
    }


@click.command(help=__doc__)
@click.option("--seeds", default=SEEDS, show_default=True, help="Seeds of the drawn networks.")
@click.option("--fixed/--no-fixed", "with_fixed", default=True, show_default=True, help="Whether the fixed networks take part.")
@output_options(after="network", resumes=True)
def main(seeds: str, with_fixed: bool, output: Output) -> None:
    """Measure all cases, write the tables after each and print them."""
    networks = [drawn(int(seed), seed) for seed in dict.fromkeys(seeds.split(","))] + (
        [fixed(name) for name in FIXED] if with_fixed else []
    )
    wanted, measured = cases(networks), Cases(output, all_earlier=False)
    for number, (network, cluster) in enumerate(wanted, 1):
        if not measured.find(network=network.title, seed=network.seed, cluster=cluster):
            title = f"{number} of {len(wanted)}, {network.seed} at {cluster}"
            measured.measure(title, functools.partial(attempted, network, cluster, run))
        output.publish(CASES, [row(case) for case in measured.done])
        output.publish(TERM_ERRORS, term_rows(measured.done))
    click.echo("\n\n".join([shown(CASES, [row(case) for case in measured.done]), shown(TERM_ERRORS, term_rows(measured.done))]))


if __name__ == "__main__":
    main()
