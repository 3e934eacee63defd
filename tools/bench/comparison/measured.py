"""What benches share: a Markdown table on the terminal, and the same figures in a JSON file."""

from __future__ import annotations

import json
import os
import pathlib
import platform
from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.report.scores import Score

SCORES = ("ROC AUC", "accuracy", "sensitivity", "specificity")


def markdown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table; numbers are shown with three significant digits."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def scored(case: Mapping[str, Any]) -> list[str]:
    """Return the cells of a classifier's `SCORES`, such as "0.950 (0.835 to 0.986)"; a case has its scores as `Scores.document` does."""
    by_kind = {name.partition(" (")[0]: Score(**score) for name, score in case["scores"].items()}
    return [by_kind[name].text().partition(":")[0] for name in SCORES]


def record(path: str | None, command: str, document: Mapping[str, Any]) -> None:
    """Write figures with the command and machine that made them to a JSON file in one piece, if a path is given."""
    if path:
        machine = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
        beside = pathlib.Path(f"{path}.part")
        beside.write_text(json.dumps({"command": command, "machine": machine, **document}, indent=1) + "\n")
        beside.replace(path)


def kept(path: str | None) -> list[dict[str, Any]]:
    """Return the cases in the file of an earlier run, if there is one."""
    if path is None or not pathlib.Path(path).exists():
        return []
    cases: list[dict[str, Any]] = json.loads(pathlib.Path(path).read_text())["cases"]
    return cases
