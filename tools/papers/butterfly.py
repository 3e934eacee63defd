"""Paper D by its own experiment: data parallel convolutions, model parallel dense layers, gradients over a butterfly.

Jin, Qamar, Zheng, Ahmad, J. Intelligent & Fuzzy Systems 35 (2018) 5449-5466, doi 10.3233/JIFS-171329; Krizhevsky, arXiv 1404.5997, for the
split; Zhao, Canny, "Butterfly mixing", SDM 2013, for mixing. An AlexNet-like network on 4 and 8 equal devices and on 5 unequal ones is
trained data parallel, model parallel and as a hybrid of both; each with a ring, a butterfly and halving-doubling for every all-reduce, and
the first and the last with butterfly mixing, which leaves the dense layers of the hybrid synchronous. All are open side by side and
take turns. The bytes of a step are those that pass the loopback interface, with batches and messages of the runtime; rounds are those of
one all-reduce. A device is measured alone once for each share.

Then, on a generated task with the best linear model beside it, the test accuracy over seeds; and the largest difference of weights from
one device after two steps in float64, of every synchronous arrangement.

    python -m tools.papers.butterfly [--quick] [--json butterfly.json [--resume]]
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import click
import numpy as np

from tools.bench.comparison.measured import cluster_text
from tools.bench.comparison.side_by_side import Pace, TrainingTask, measure
from tools.papers.experiment import Experiment, claim, claims_form, differences, experiment_options, float64, step_rows, steps_form
from tools.papers.learning import ACCURACY_COLUMNS, BRIEF, Learning, accuracy_rows, learnt, settings, small_network
from tools.papers.speedup import SPEEDUP, curve, curve_rows
from tools.papers.tasks import subject_of
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

QUICK, FULL = Pace(2, 1, 15.0, 0), Pace(3, 1, 60.0, 0)
CLUSTERS = ((0.2,) * 4, (0.2,) * 8, (0.4, 0.4, 0.4, 0.2, 0.2))
QUICK_CLUSTERS = (CLUSTERS[0], CLUSTERS[2])
METHODS = ("ring", "butterfly", "halving_doubling")
MIXING = "butterfly mixing"
STRATEGIES = {"batch": "data parallel", "filters": "model parallel", "hybrid": "hybrid"}
MIXED = ("batch", "hybrid")
IMAGES = 50000
CLOSE = 1e-8  # largest difference in float64, of the claim
LEARNING, QUICK_LEARNING = Learning(1000, 400, 50, 12), BRIEF
SEEDS, QUICK_SEEDS = 3, 1


def network(quick: bool) -> Any:
    """Return the AlexNet-like network of the step times."""
    from models.alexnet import alexnet

    return alexnet(32, hidden=256, classes=10) if quick else alexnet(64, hidden=2048)


def plan(model: Any, strategy: str, method: str, shares: Sequence[float], cluster: Any, batch: int) -> Any:
    """Return the plan of a strategy with the devices' shares and a method of all-reduce, or with butterfly mixing."""
    import hetero_mtf as hm

    make = getattr(hm.Plan, strategy)
    if method == MIXING:
        return make(model, shares, cluster, batch, gradient_sync="butterfly_mixing")
    return make(model, shares, cluster, batch).with_collective(method)


def arrangements() -> dict[str, tuple[str, str]]:
    """Return each arrangement's strategy and method, by the name that tables call it."""
    pairs = [(strategy, method) for strategy in STRATEGIES for method in METHODS]
    pairs += [(strategy, MIXING) for strategy in MIXED]
    return {f"{STRATEGIES[strategy]}, {method.replace('_', '-')}": (strategy, method) for strategy, method in pairs}


def message_rounds(method: str, devices: int) -> int:
    """Return the rounds of messages of one all-reduce, or of mixing.

    Examples
    --------
    >>> [message_rounds(method, 8) for method in (*METHODS, MIXING)]
    [14, 3, 6, 1]
    """
    from hetero_mtf.planning.cost.rounds import rounds

    if method == MIXING:
        return 1
    return 2 * (devices - 1) if method == "ring" else len(rounds(method, devices))


def steps(shares: Sequence[float], batch: int, pace: Pace, quick: bool) -> dict[str, Any]:
    """Return the seconds and the bytes of a step of every arrangement.

    Parameters
    ----------
    shares : (devices,) of a core.
    """
    import hetero_mtf as hm

    task = TrainingTask(network(quick), batch)
    alike = [list(shares).index(share) for share in shares]
    with hm.Cluster.emulate(shares) as cluster:
        plans = {f"alone {d}": hm.Plan.single(task.model, d, cluster, batch) for d in dict.fromkeys(alike)}
        plans |= {name: plan(task.model, *which, shares, cluster, batch) for name, which in arrangements().items()}
        times = measure(task, plans, cluster, pace, {}, sent=True)
    for name, (_, method) in arrangements().items():
        times[name]["rounds"] = message_rounds(method, len(shares))
    return {"batch": batch, "weights": task.model.count_params(), "alike": alike, "times": times}


def accuracies(shares: Sequence[float], dataset: Any, learning: Learning, seeds: int) -> dict[str, Any]:
    """Return the accuracy of one device, of each synchronous strategy and of both that mix, for each seed."""
    import keras

    import hetero_mtf as hm

    wanted = {name: pair for name, pair in arrangements().items() if pair[1] in (MIXING, "butterfly")}
    scores: dict[str, list[dict[str, float]]] = {}
    for seed in range(seeds):
        keras.utils.set_random_seed(seed)
        model = small_network()
        with hm.Cluster.local(["cpu:0"] * len(shares)) as cluster:
            plans = {"one device": hm.Plan.single(model, 0, cluster, learning.batch)}
            plans |= {name: plan(model, *pair, shares, cluster, learning.batch) for name, pair in wanted.items()}
            for name, chosen in plans.items():
                scores.setdefault(name, []).append(learnt(model, chosen, cluster, settings(), dataset, learning, seed))
    return {"scores": scores}


def equivalence(shares: Sequence[float]) -> dict[str, Any]:
    """Return the largest difference of weights and losses from one device, relative to each tensor's largest, after two float64 steps."""
    import keras

    import hetero_mtf as hm

    batch = 2 * len(shares)
    with float64():
        keras.utils.set_random_seed(0)
        model = small_network(16)
        with hm.Cluster.local(["cpu:0"] * len(shares)) as cluster:
            synchronous = {name: pair for name, pair in arrangements().items() if pair[1] != MIXING}
            plans = {name: plan(model, *pair, shares, cluster, batch) for name, pair in synchronous.items()}
            return {"differences": differences(model, plans, cluster, settings(), batch)}


STEPS = steps_form("paper_butterfly", "Paper D's split of an AlexNet-like network", without=("split", "predicted_ms"))
ACCURACY = TableForm(
    "paper_butterfly_accuracy",
    "Accuracy of paper D's splits",
    (Column("cluster", "cluster"), *ACCURACY_COLUMNS),
    ("cluster", "arrangement"),
)
EQUIVALENCE = TableForm(
    "paper_butterfly_equivalence",
    "Paper D's splits against one device, two steps in float64",
    (
        Column("cluster", "cluster"),
        Column("arrangement", "arrangement"),
        Column("difference", "largest difference", ".1e", "at_most", CLOSE),
    ),
    ("cluster", "arrangement"),
)
CLAIMS = claims_form("butterfly", "Paper D, claim by claim")


def claims(timed: Mapping[str, Mapping[str, Any]], scored: Mapping[str, Mapping[str, Any]], extent: str) -> list[Row]:
    """Return the table of claims.

    Parameters
    ----------
    timed, scored : cluster -> figures of its steps and, of some, of its accuracies.
    """
    rows = []
    for cluster, case in timed.items():
        median = {name: 1e3 * float(np.median(entry["rounds_s"])) for name, entry in case["times"].items()}
        of = {strategy: f"{title}, butterfly" for strategy, title in STRATEGIES.items()}
        mixed = {strategy: f"{STRATEGIES[strategy]}, {MIXING}" for strategy in MIXED}
        size = f"{extent}, {cluster}, batch {case['batch']}, {case['weights'] / 1e6:.1f} million weights"
        best = {
            strategy: min((median[name], name) for name in arrangements() if name.startswith(title))
            for strategy, title in STRATEGIES.items()
        }
        rows.append(
            claim(
                f"Samples are split at the convolutions and hidden units in the dense layers ({cluster})",
                f"{size}: a step by butterfly takes {median[of['hybrid']]:.0f} ms, {median[of['batch']]:.0f} data parallel and "
                f"{median[of['filters']]:.0f} model parallel; the best of each takes "
                + ", ".join(f"{step:.0f} ({name})" for step, name in best.values()),
                "no figure of the paper is known to this project",
            )
        )
        if cluster not in scored:
            continue
        times = ", ".join(f"{median[of[strategy]] / median[mixed[strategy]]:.2f} x ({STRATEGIES[strategy]})" for strategy in MIXED)
        score = {name: statistics.fmean(run["accuracy"] for run in runs) for name, runs in scored[cluster]["scores"].items()}
        accuracy = ", ".join(f"{score[mixed[s]]:.1%} against {score[of[s]]:.1%} ({STRATEGIES[s]})" for s in MIXED)
        rows.append(
            claim(
                f"Butterfly mixing: 3.3 x over all-reduce on EC2, convergence almost as fast (Zhao and Canny) ({cluster})",
                f"{size}: a step with mixing is {times} as fast as with a butterfly; test accuracy {accuracy}",
                "mixing sends the weights to one partner, a butterfly to log2(p): the gain is bounded by the part of a step that is "
                "communication, here between processes of one host; their cluster has slower links for its compute",
            )
        )
    return rows


@click.command(help=__doc__)
@click.option("--data", "named", multiple=True, help="cifar10:DIR.  [default: a generated task]")
@experiment_options
def main(named: tuple[str, ...], **options: Any) -> None:
    """Run the experiment, print its tables."""
    experiment = Experiment.of(options, QUICK, FULL)
    quick = experiment.is_quick
    learning, seeds, batch = (QUICK_LEARNING, QUICK_SEEDS, 20) if quick else (LEARNING, SEEDS, 64)
    subject = subject_of("cifar10", named, learning)
    timed, scored = dict[str, dict[str, Any]](), dict[str, dict[str, Any]]()
    for shares in QUICK_CLUSTERS if quick else CLUSTERS:
        cluster = cluster_text(shares)
        timed[cluster] = experiment.case(f"{cluster} steps", functools.partial(steps, shares, batch, experiment.pace, quick))
        cells = {"network": "AlexNet-like", "cluster": cluster, "batch": batch}
        experiment.publish(STEPS, step_rows(cells, timed[cluster]["times"], IMAGES, timed[cluster]["alike"]))
        exact = experiment.case(f"{cluster} float64", functools.partial(equivalence, shares))
        rows = [{"cluster": cluster, "arrangement": name, "difference": value} for name, value in exact["differences"].items()]
        experiment.publish(EQUIVALENCE, [table_row(row) for row in rows])
        if quick and shares != QUICK_CLUSTERS[-1]:
            continue
        learns = functools.partial(accuracies, shares, subject.dataset, learning, seeds)
        scored[cluster] = experiment.case(f"{cluster} accuracy, {subject.name}", learns)
        own = accuracy_rows(subject, learning, {**scored[cluster], "linear": subject.linear}, {"cluster": cluster})
        experiment.publish(ACCURACY, own, [subject.note])
    make = functools.partial(network, quick)
    splits = {"batch": "data parallel, ring", "hybrid": "hybrid, ring"}

    def chosen(model: Any, count: int, cluster: Any) -> dict[str, Any]:
        return {title: plan(model, name, "ring", [1.0] * count, cluster, batch) for name, title in splits.items()}

    counts = (1, 2, 4) if quick else (1, 2, 4, 8)
    figures = experiment.case("speed-up", functools.partial(curve, make, batch, 0.2, counts, chosen, experiment.pace))
    experiment.publish(SPEEDUP, curve_rows("D, AlexNet-like", 0.2, batch, figures))
    experiment.publish(CLAIMS, claims(timed, scored, experiment.extent))
    experiment.print()


if __name__ == "__main__":
    main()
