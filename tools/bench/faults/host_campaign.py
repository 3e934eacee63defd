"""Claim: a training on several hosts goes on when links between them are cut and healed, and ends with the weights of the undisturbed one.

As `tools.bench.faults.campaign`, with each of three workers in a network namespace of its own. Beside kills and stops are drawn cuts: all
packets between a worker and the next one are dropped, or all between a worker and the program and the other workers. It needs root.

    python -m tools.bench.faults.host_campaign [--runs 20] [--json faults_between_hosts.json] [--resume]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import click

from tools.bench.faults import campaign
from tools.bench.faults.faulty_workers import CUTS, KINDS, HostWorkers
from tools.lab import namespaces
from tools.results.output import Output, output_options
from tools.results.publication import table_row
from tools.results.records import Column, Row

_COLUMNS = [column for column in campaign.FORM.columns if column.key != "first"]
_AT = next(at for at, column in enumerate(_COLUMNS) if column.key == "back")
FORM = dataclasses.replace(
    campaign.FORM,
    name="faults_between_hosts",
    title="Trainings that go on without hosts",
    columns=(*_COLUMNS[:_AT], Column("cuts", "of them cuts"), *_COLUMNS[_AT:]),
    case=(),
)


def rows(cases: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return a row for all runs.

    Parameters
    ----------
    cases : as `campaign.run` returns them.
    """
    cuts = sum(kind in CUTS for case in cases for _, _, _, kind, *_ in case["faults"])
    cells, wanted = campaign.figures(cases)
    return [table_row({"network": "all", "by": "-", "cuts": cuts, **cells}, wanted)]


@click.command(help=__doc__)
@click.option("--runs", default=20, show_default=True, help="Trainings, by seeds from 1.")
@output_options(after="run", resumes=True)
def main(runs: int, output: Output) -> None:
    """Train under faults, and print the table."""
    why = namespaces.missing()
    if why:
        raise click.ClickException(f"there can be no hosts here: {why}")
    output.report(FORM, rows(campaign.measured(runs, output, HostWorkers, (*KINDS, *CUTS))))


if __name__ == "__main__":
    main()
