"""Claim: workers whose ports are closed to all but the hosts of the list take no longer for a step.

Two hosts in network namespaces, with 1.0 and 0.5 of a core each, whose workers were started with `--allow`, and the program on a third one.
A plan by samples trains while the rules that the workers made are in force, and while they are not, by turns.

    python -m tools.bench.hosts.closed_ports [--rate 1000] [--rounds 9]
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import click

from hetero_mtf.planning.profile.spread import median_and_spread
from tools.bench.comparison.networks import NETWORKS
from tools.bench.comparison.options import rounds_option
from tools.bench.comparison.side_by_side import TrainingTask
from tools.lab import namespaces
from tools.lab.lab_workers import limited_workers
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


def run(lab: namespaces.Lab, hosts: list[str], rounds: int) -> dict[str, Any]:
    """Return the seconds of steps with and without the rules of the workers.

    Parameters
    ----------
    lab : with the hosts.
    hosts : of the workers.
    rounds : turns.
    """
    import hetero_mtf as hm

    task = TrainingTask(NETWORKS["paper-a"].make(), 64)
    rules = {name: lab.rules(name) for name in lab.names}
    seconds: dict[str, list[float]] = {CLOSED: [], OPEN: []}
    x, y = task.drawn(task.batch)
    with hm.Cluster.hosts(hosts) as cluster:
        plan = hm.Plan.batch(task.model, SHARES, cluster, task.batch)
        with hm.Trainer(task.model, plan, cluster, **task.settings) as trainer:
            for _ in range(STEPS):
                trainer.train_on_batch(x, y)
            for _ in range(rounds):
                for state, in_force in ((CLOSED, rules), (OPEN, dict.fromkeys(lab.names, ""))):
                    for name in lab.names:
                        lab.set_rules(name, in_force[name])
                    steps_s = []
                    for _ in range(STEPS):
                        start_s = time.perf_counter()
                        trainer.train_on_batch(x, y)
                        steps_s.append(time.perf_counter() - start_s)
                    seconds[state].append(statistics.median(steps_s))
            for name in lab.names:
                lab.set_rules(name, rules[name])
    return {"seconds": seconds, "rules": {name: len(text.splitlines()) for name, text in rules.items()}}


def rows(case: dict[str, Any], rate: float) -> list[Row]:
    """Return a row with the rules, and one without."""
    medians = {state: statistics.median(values) for state, values in case["seconds"].items()}
    table = []
    for state, values in case["seconds"].items():
        median_s, spread = median_and_spread(values)
        cells = {"network": f"{NETWORKS['paper-a'].title}, batch 64", "link": f"{rate:g} Mbit/s", "ports": state}
        lines = float(max(case["rules"].values())) if state == CLOSED else 0.0
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
    lab = namespaces.Lab(["fast", "slow"])
    with lab, limited_workers(lab, SHARES, ("--allow", lab.address(namespaces.HERE))) as hosts:
        lab.rate(rate)
        case = run(lab, hosts, rounds)
    output.record({"cases": [{"rate": rate, **case}]})
    output.publish(FORM, rows(case, rate))
    click.echo(shown(FORM, rows(case, rate)))


if __name__ == "__main__":
    main()
