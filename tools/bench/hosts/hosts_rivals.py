"""Claim: over links of 1 and 10 Gbit/s auto is never slower than one device, nor than unequal batches weighted by hand elsewhere.

Two hosts in network namespaces, with 1.0 and 0.5 of a core each, and the program on a third one. The five networks of
`tools.bench.baselines.rivals` by the faster host alone, by auto's plan, by the best plan of both hosts, and by PyTorch's
DistributedDataParallel over gloo, with equal batches and with batches in proportion to the hosts' speeds whose losses are weighted by hand.
All are open side by side and take turns; a figure is the median over rounds.

    python -m tools.bench.hosts.hosts_rivals --torch-python ~/torch-env/bin/python [--rate 1000] [--network vgg8]
"""

from __future__ import annotations

import contextlib
import functools
import statistics
from collections.abc import Sequence
from typing import Any

import click

from hetero_mtf.planning.profile.spread import median_and_spread
from tools.bench.baselines.equal_batches import DDP, NO_TORCH, UNEQUAL_DDP, Baselines
from tools.bench.baselines.limited import Places
from tools.bench.baselines.rivals import UNEQUAL_TIMES, least_ratio, plan_samples, step_cells
from tools.bench.baselines.tasks import COMPARED, Trained, compared_task
from tools.bench.comparison.options import pace_options, torch_option
from tools.bench.comparison.side_by_side import Pace, measure
from tools.lab import namespaces
from tools.lab.lab_workers import limited_workers
from tools.results.output import Cases, Output, output_options
from tools.results.publication import TableForm, shown, table_row
from tools.results.records import Column, Row

RATES = (1000.0, 10_000.0)
SHARES = (1.0, 0.5)
PORT = 2300  # of the other library's processes
ALONE, AUTO, BOTH = "the faster host alone", "auto", "both hosts"


def _summary(measured: Sequence[Row]) -> list[str]:
    """Return what all networks say together of links of each speed."""
    steps_ms: dict[str, dict[str, dict[str, float]]] = {}
    for row in measured:
        by_network = steps_ms.setdefault(row.texts["link"], {}).setdefault(row.texts["network"], {})
        by_network[row.texts["arrangement"].partition(" (")[0]] = row.numbers["step_ms"]
    notes = []
    for link, networks in steps_ms.items():
        ratios = [of_network[UNEQUAL_DDP] / of_network[AUTO] for of_network in networks.values() if {UNEQUAL_DDP, AUTO} <= set(of_network)]
        if ratios:
            mean = statistics.geometric_mean(ratios)
            figures = f"{mean:.2f} (at least {UNEQUAL_TIMES:g}) in the geometric mean of {len(ratios)}, {max(ratios):.2f} at most"
            notes.append(f"At {link}: step of {UNEQUAL_DDP} / {AUTO}: {figures}.")
    return notes


FORM = TableForm(
    "hosts_rivals",
    "Steps over links between hosts, here and elsewhere",
    (
        Column("network", "network"),
        Column("link", "links"),
        Column("arrangement", "arrangement"),
        Column("samples", "samples of each host"),
        Column("step_ms", "ms/step", ".0f"),
        Column("times_ours", "its step / auto's", ".2f", "at_least"),
        Column("spread", "spread", ".2f"),
    ),
    case=("network", "link"),
    summarise=_summary,
)


def plans_of(profile: Any, costs: Any) -> dict[str, Any]:
    """Return arrangement -> plan: that of one host, auto's, and the best of both hosts, where there is one.

    Parameters
    ----------
    profile, costs : of the network on both hosts.
    """
    import hetero_mtf as hm
    from hetero_mtf.planning.choose import candidate_plans

    found = {ALONE: hm.plan(profile, strategy="single"), AUTO: hm.plan(profile)}
    split = [plan for plan in candidate_plans(costs) if len(plan.used) > 1]
    if split:
        found[BOTH] = min(split, key=lambda plan: plan.predicted.step_s)
    return found


def run(network: str, rate: float, lab: namespaces.Lab, hosts: Sequence[str], pace: Pace, torch_python: str | None) -> dict[str, Any]:
    """Return the seconds of every round of every arrangement, and the samples of each host.

    Parameters
    ----------
    network : one of `COMPARED`.
    rate : Mbit/s of the links.
    lab : with the hosts.
    hosts : of the workers.
    pace : how long to measure.
    torch_python : a Python with torch, or None to leave PyTorch out.
    """
    import hetero_mtf as hm
    from hetero_mtf.planning.cost.layer_cost import Costs

    task = compared_task(network)

    def start(place: int, command: Sequence[str], **options: Any) -> Any:
        return lab.start(lab.names[place], command, **options)

    places = Places(tuple(f"{lab.address(name)}:{PORT}" for name in lab.names), start, {"GLOO_SOCKET_IFNAME": "eth0"})
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(hm.Cluster.hosts(hosts))
        profile = hm.calibrate(cluster, task.model, task.batch, optimizer=task.settings["optimizer"], budget_s=pace.budget_s)
        costs = Costs(profile)
        plans, speeds = plans_of(profile, costs), [1 / float(seconds) for seconds in costs.alone_s]
        trained = Trained.of(network, task.model)
        baselines = Baselines(trained, SHARES, task.batch, torch_python, method="cgroup", unequal=speeds, places=places)
        times = measure(task, plans, cluster, pace, baselines.start(stack))
    return {
        "network": network,
        "rate": rate,
        "batch": task.batch,
        "speeds": speeds,
        "strategies": {name: plan.strategy for name, plan in plans.items()},
        "schedules": {name: plan.schedule for name, plan in plans.items()},
        "predicted_s": {name: plan.predicted.step_s for name, plan in plans.items()},
        "samples": {
            **{name: plan_samples(plan) for name, plan in plans.items()},
            **{each.name: list(each.samples) for each in baselines.chosen()},
        },
        "times": times,
    }


def rows(case: dict[str, Any]) -> list[Row]:
    """Return a row an arrangement of a network over links of one speed."""
    figures = {name: median_and_spread(entry["rounds_s"]) for name, entry in case["times"].items()}
    ours_s, _ = figures[AUTO]
    table = []
    for name, (step_s, spread) in figures.items():
        wanted = least_ratio((step_s, spread), figures[AUTO]) if name in (ALONE, DDP, UNEQUAL_DDP) else None
        strategy = case["strategies"].get(name)
        cells = {
            **step_cells(case, name, step_s, spread, ours_s),
            "link": f"{case['rate'] / 1000:g} Gbit/s",
            "arrangement": name if strategy is None or name == ALONE else f"{name} ({strategy})",
        }
        table.append(table_row(cells, {"times_ours": None if wanted is None else round(wanted, 2)}))
    return table


@click.command(help=__doc__)
@click.option("--rate", "rates", type=float, multiple=True, default=RATES, show_default=True, help="Mbit/s of the links.")
@click.option("--network", "names", multiple=True, type=click.Choice(COMPARED), help="One, several times for more.  [default: all]")
@torch_option
@pace_options(5, 2, 60.0)
@output_options(after="network", resumes=True)
def main(rates: tuple[float, ...], names: tuple[str, ...], torch_python: str | None, pace: Pace, output: Output) -> None:
    """Measure, and print the table."""
    why = namespaces.missing()
    if why:
        raise click.ClickException(f"there can be no hosts here: {why}")
    notes = [NO_TORCH] if torch_python is None else []
    cases = Cases(output)

    def measured(network: str, rate: float) -> dict[str, Any]:
        with namespaces.Lab(["fast", "slow"]) as lab, limited_workers(lab, SHARES) as hosts:
            lab.rate(rate)
            return run(network, rate, lab, hosts, pace, torch_python)

    for network in names or COMPARED:
        for rate in rates:
            title = f"{network}, {rate:g} Mbit/s"
            case = cases.find(network=network, rate=rate) or cases.measure(title, functools.partial(measured, network, rate))
            output.publish(FORM, rows(case), notes)
    click.echo(shown(FORM, [row for case in cases.done for row in rows(case)], notes))


if __name__ == "__main__":
    main()
