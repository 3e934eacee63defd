"""Claim: workers whose ports are closed to all but the hosts of the list take no longer for a step.

Two hosts in network namespaces, with 1.0 and 0.5 of a core each, and the program on a third one. Each host has two workers, one of them
started with `--allow`. A plan by samples trains on those with closed ports and on the others, by turns.

    python -m tools.bench.hosts.closed_ports [--rate 1000] [--rounds 9]
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from hetero_mtf.planning.profile.spread import median_and_spread
from tools.bench.comparison.networks import NETWORKS
from tools.bench.comparison.options import rounds_option
from tools.bench.comparison.side_by_side import TrainingTask
from tools.lab import namespaces
from tools.lab.lab_workers import PORT, limited_workers
from tools.results.output import Output, output_options
from tools.results.publication import TableForm, shown, table_row
from tools.results.records import Column, Row

SHARES = (1.0, 0.5)
STEPS = 5  # of a turn
AT_MOST = 1.02
CLOSED, OPEN = "closed by --allow", "open"

FORM = TableForm(
    "closed_ports",
    "Steps between workers whose ports are closed to others",
    (
        Column("network", "network"),
        Column("link", "links"),
        Column("ports", "ports"),
        Column("rules", "lines of rules on each host"),
        Column("step_ms", "ms/step", ".1f"),
        Column("spread", "spread", ".0%"),
        Column("ratio", "closed / open", ".3f", "at_most", AT_MOST),
    ),
    case=("network", "link"),
)


def run(hosts: Mapping[str, Sequence[str]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of steps of each turn.

    Parameters
    ----------
    hosts : state of the ports -> their workers.
    rounds : turns.
    """
    import hetero_mtf as hm

    task = TrainingTask(NETWORKS["paper-a"].make(), 64)
    x, y = task.drawn(task.batch)
    seconds: dict[str, list[float]] = {state: [] for state in hosts}
    with contextlib.ExitStack() as stack:
        trainers = {}
        for state, workers in hosts.items():
            cluster = stack.enter_context(hm.Cluster.hosts(workers))
            plan = hm.Plan.batch(task.model, SHARES, cluster, task.batch)
            trainers[state] = stack.enter_context(hm.Trainer(task.model, plan, cluster, **task.settings))
        for turn in range(rounds + 1):
            for state, trainer in trainers.items():
                steps_s = []
                for _ in range(STEPS):
                    start_s = time.perf_counter()
                    trainer.train_on_batch(x, y)
                    steps_s.append(time.perf_counter() - start_s)
                seconds[state] += [statistics.median(steps_s)] if turn else []  # the first one builds the graphs
    return seconds


def rows(case: dict[str, Any], rate: float) -> list[Row]:
    """Return a row with the rules, and one without."""
    medians = {state: statistics.median(values) for state, values in case["seconds"].items()}
    table = []
    for state, values in case["seconds"].items():
        median_s, spread = median_and_spread(values)
        cells = {"network": f"{NETWORKS['paper-a'].title}, batch 64", "link": f"{rate:g} Mbit/s", "ports": state}
        lines = float(case["rules"]) if state == CLOSED else 0.0
        ratio = medians[CLOSED] / medians[OPEN] if state == CLOSED else None
        table.append(table_row({**cells, "rules": lines, "step_ms": 1e3 * median_s, "spread": spread, "ratio": ratio}))
    return table


@click.command(help=__doc__)
@click.option("--rate", default=1000.0, show_default=True, help="Mbit/s of the links.")
@rounds_option(9)
@output_options(after="run")
def main(rate: float, rounds: int, output: Output) -> None:
    """Measure, and print the table."""
    why = namespaces.missing()
    if why:
        raise click.ClickException(f"there can be no hosts here: {why}")
    with namespaces.Lab(["fast", "slow"]) as lab, contextlib.ExitStack() as stack:
        allowed = ("--allow", lab.address(namespaces.HERE))
        hosts = {
            CLOSED: stack.enter_context(limited_workers(lab, SHARES, allowed)),
            OPEN: stack.enter_context(limited_workers(lab, SHARES, (), PORT + 100)),
        }
        rules = max(len(lab.rules(name).splitlines()) for name in lab.names)
        lab.rate(rate)
        case = {"seconds": run(hosts, rounds), "rules": rules}
    output.record({"cases": [{"rate": rate, **case}]})
    output.publish(FORM, rows(case, rate))
    click.echo(shown(FORM, rows(case, rate)))


if __name__ == "__main__":
    main()
