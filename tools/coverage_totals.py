"""Prints what `make coverage` found: the lines and branches of the package that the tests run, and the files that lack most."""

from __future__ import annotations

import json
import pathlib
import sys

SHOWN = 10


def main(path: str) -> None:
    """Print the totals of coverage.py's JSON report at `path`, and the files with the most lines that no test runs."""
    report = json.loads(pathlib.Path(path).read_text())
    missing = {name: len(file["missing_lines"]) for name, file in report["files"].items()}
    for name in sorted(missing, key=lambda name: -missing[name])[:SHOWN]:
        if missing[name]:
            print(f"{missing[name]:6} lines not run  {name}")
    totals = report["totals"]
    for unit, covered, count in (("lines", "covered_lines", "num_statements"), ("branches", "covered_branches", "num_branches")):
        print(f"{unit:8} {totals[covered]:6} of {totals[count]:6}  {100 * totals[covered] / max(totals[count], 1):.2f} %")


if __name__ == "__main__":
    main(*sys.argv[1:])
