"""What benches share: how clusters and arrangements are named, and the columns of a classifier's scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.devices.records import LIMITS
from hetero_mtf.report.scores import Score
from tools.results.records import Column

SCORES = {"roc_auc": "ROC AUC", "accuracy": "accuracy", "sensitivity": "sensitivity", "specificity": "specificity"}
SCORE_COLUMNS = tuple(Column(key, title) for key, title in SCORES.items())


def scored(case: Mapping[str, Any]) -> dict[str, str]:
    """Return the entries of `SCORE_COLUMNS`, such as "0.950 (0.835 to 0.986)"; a case has its scores as `Scores.document` does."""
    by_kind = {name.partition(" (")[0]: Score(**score) for name, score in case["scores"].items()}
    return {key: by_kind[title].text().partition(":")[0] for key, title in SCORES.items()}


def cluster_text(shares: Sequence[float], limit: str = LIMITS[0]) -> str:
    """Return the shares of a core of emulated devices as the command line takes them, such as "1.0,0.5" or "1.0,0.5:compute"."""
    return ",".join(map(str, map(float, shares))) + (f":{limit}" if limit != LIMITS[0] else "")


def shares_of(text: str) -> list[float]:
    """Return the shares of a core that a text such as "1.0,0.5" names."""
    return [float(share) for share in text.split(",")]


def arrangement_text(name: str) -> str:
    """Return an arrangement's name for tables, such as "worker:0 alone" of "alone 0"."""
    kind, _, device = name.partition(" ")
    return f"worker:{device} alone" if kind == "alone" else name
