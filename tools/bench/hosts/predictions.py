"""Claim: steps over links between hosts take what is predicted for them, also where sending the batch takes longer than the step.

Two hosts in network namespaces, with 1.0 and 0.5 of a core each, behind links of several speeds; the program is on a third one. After a
calibration each strategy's plan trains by `fit`, which sends a batch while the step before runs; a figure is the median of its steps.

    python -m tools.bench.hosts.predictions [--rate 100] [--model paper-a]
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import click

from tools.bench.comparison.networks import NETWORKS
from tools.bench.comparison.side_by_side import TrainingTask
from tools.lab import namespaces
from tools.lab.lab_workers import limited_workers
from tools.results.output import Output, output_options
from tools.results.publication import TableForm, shown, table_row
from tools.results.records import Column, Row

RATES = (100.0, 1000.0, 0.0)
STRATEGIES = ("single", "batch", "filters", "layers", "auto")
SHARES = (1.0, 0.5)
WARM_UP = 3
LONG_S = 40.0  # after which a plan takes no more steps than two
OFF = 0.2

FORM = TableForm(
    "hosts_predictions",
    "Predicted and measured steps over links between hosts",
    (
        Column("network", "network"),
        Column("link", "links"),
        Column("strategy", "plan"),
        Column("fed", "MB of a batch sent to workers", ".1f"),
        Column("predicted_ms", "predicted ms", ".0f"),
        Column("measured_ms", "measured ms", ".0f"),
        Column("error", "error", "+.0%"),
        Column("off", "|error|", ".0%", "at_most", OFF),
    ),
    case=("network", "link", "strategy"),
)


def run(network: str, rate: float, hosts: Sequence[str], budget_s: float, steps: int) -> list[dict[str, Any]]:
    """Return what each strategy's plan predicts and takes.

    Parameters
    ----------
    network : key in `NETWORKS`.
    rate : Mbit/s of the links, 0 for as fast as they go.
    hosts : of the workers.
    budget_s : seconds that the calibration may take.
    steps : that are timed for each plan.
    """
    import hetero_mtf as hm
    from hetero_mtf.planning.cost.feeding import fed_bytes

    task = TrainingTask(NETWORKS[network].make(), NETWORKS[network].batch)
    cases = []
    with hm.Cluster.hosts(hosts) as cluster:
        begun_s = time.perf_counter()
        profile = hm.calibrate(cluster, task.model, task.batch, optimizer=task.settings["optimizer"], budget_s=budget_s, verbose=0)
        calibrated_s = time.perf_counter() - begun_s
        for strategy in STRATEGIES:
            plan = hm.plan(profile, strategy=strategy)
            seconds = step_seconds(task, plan, cluster, steps)
            cases.append(
                {
                    "network": network,
                    "rate": rate,
                    "strategy": strategy,
                    "chosen": plan.strategy,
                    "batch": task.batch,
                    "calibrated_s": calibrated_s,
                    "fed_bytes": sum(fed_bytes(profile, plan.stages).values()),
                    "links": [[link.latency_s, link.bandwidth_bytes_per_s] for link in profile.links],
                    "feed_links": [[link.bytes_per_s, link.together_bytes_per_s] for link in profile.feed_links],
                    "predicted_s": plan.predicted.step_s,
                    "measured_s": statistics.median(seconds),
                    "steps_s": seconds,
                }
            )
    return cases


def step_seconds(task: TrainingTask, plan: Any, cluster: Any, steps: int) -> list[float]:
    """Return the (steps,) seconds of steps of `fit`, from the end of one to the end of the next."""
    import keras

    import hetero_mtf as hm

    class Ends(keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.ends: list[float] = []

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.ends.append(time.perf_counter())
            if len(self.ends) > WARM_UP + 2 and self.ends[-1] - self.ends[0] > LONG_S:
                self.model.stop_training = True

    clock = Ends()
    x, y = task.drawn((WARM_UP + 1 + steps) * task.batch)
    with hm.Trainer(task.model, plan, cluster, **task.settings) as trainer:
        trainer.fit(x, y, batch_size=task.batch, epochs=1, verbose=0, callbacks=[clock])
    return [after - before for before, after in zip(clock.ends[WARM_UP:], clock.ends[WARM_UP + 1 :])]


def row(case: dict[str, Any]) -> Row:
    """Return the row of a plan on links of one speed."""
    error = case["predicted_s"] / case["measured_s"] - 1
    return table_row(
        {
            "network": f"{NETWORKS[case['network']].title}, batch {case['batch']}",
            "link": f"{case['rate']:g} Mbit/s" if case["rate"] else "not limited",
            "strategy": case["strategy"] if case["strategy"] == case["chosen"] else f"{case['strategy']} ({case['chosen']})",
            "fed": case["fed_bytes"] / 1e6,
            "predicted_ms": 1e3 * case["predicted_s"],
            "measured_ms": 1e3 * case["measured_s"],
            "error": error,
            "off": abs(error),
        }
    )


@click.command(help=__doc__)
@click.option("--rate", "rates", type=float, multiple=True, default=RATES, show_default=True, help="Mbit/s of the links, 0 for no limit.")
@click.option("--model", "models", multiple=True, type=click.Choice(list(NETWORKS)), default=["paper-a", "vgg11"], show_default=True)
@click.option("--steps", default=12, show_default=True, help="Steps that are timed for each plan.")
@click.option("--budget", default=45.0, show_default=True, help="Seconds that each calibration may take.")
@output_options(after="model")
def main(rates: tuple[float, ...], models: tuple[str, ...], steps: int, budget: float, output: Output) -> None:
    """Measure, and print the table."""
    why = namespaces.missing()
    if why:
        raise click.ClickException(f"there can be no hosts here: {why}")
    cases: list[dict[str, Any]] = []
    with namespaces.Lab(["fast", "slow"]) as lab, limited_workers(lab, SHARES) as hosts:
        for network in models:
            for rate in rates:
                lab.rate(rate or None)
                found = run(network, rate, hosts, budget, steps)
                cases += found
                output.record({"cases": cases})
                output.publish(FORM, [row(case) for case in found])
    click.echo(shown(FORM, [row(case) for case in cases]))


if __name__ == "__main__":
    main()
