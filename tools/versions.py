"""Publish what the sessions of noxfile.py left: the versions that the fast tests passed with, for docs/versions.md.

    nox                         run the sessions (an environment of 2.7 GB each, and some minutes)
    python -m tools.versions    read what they left below runs/versions, and write docs/results/versions.json
    python -m tools.render_results
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import click

from tools.results.output import Output, tables_option
from tools.results.publication import ROOT, TableForm, table_row
from tools.results.records import Column, Row

LEFT = ROOT / "runs" / "versions"
TABLE = TableForm(
    "versions",
    "The fast tests on each version",
    (
        Column("session", "nox -s"),
        Column("python", "Python"),
        Column("tensorflow", "TensorFlow"),
        Column("keras", "Keras"),
        Column("numpy", "NumPy"),
        Column("scipy", "SciPy"),
        Column("passed", "passed", ".0f"),
        Column("skipped", "skipped", ".0f"),
        Column("failed", "failed", ".0f", "at_most"),
    ),
    case=("session",),
)
_ORDER = ("lowest", "between", "default", "next")


def row(left: Mapping[str, Any]) -> Row:
    """Return the row of what one session left; only the pre-releases may fail."""
    texts = {key: str(left[key]) for key in ("session", "python", "tensorflow", "keras", "numpy", "scipy")}
    counts = {key: int(left[key]) for key in ("passed", "skipped", "failed")}
    return table_row({**texts, **counts}, {"failed": None if left["session"].startswith("next") else 0})


def rows(folder: pathlib.Path) -> list[Row]:
    """Return the rows of the sessions below a folder, by the Python and from the lowest versions to the newest."""
    sessions = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    known = [left for left in sessions if left["session"].partition("-")[0] in _ORDER]
    by_kind = sorted(known, key=lambda left: (_ORDER.index(left["session"].partition("-")[0]), left["session"]))
    return [row(left) for left in sorted(by_kind, key=lambda left: (left["session"].startswith("next"), left["session"].partition("-")[2]))]


@click.command(help=__doc__)
@tables_option
def main(output: Output) -> None:
    """Write the table, and print it."""
    measured = rows(LEFT)
    output.report(TABLE, measured)


if __name__ == "__main__":
    main()
