"""The tables of `regret`: how the simulation meets recordings, regret by the length of a training, and what a short training gains."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from tools.bench.comparison.measured import cluster_text
from tools.bench.start.start_tasks import title_of
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

ALLOWED_PART, ALLOWED_S = 1.05, 5.0  # of one device
LENGTHS = ((20.0, 60.0), (60.0, 180.0), (180.0, 600.0), (600.0, 3600.0))
GAINS = ((1.0, 1.15), (1.15, 1.25), (1.25, math.inf))
BREAK_EVEN_S = {1.15: 120.0, 1.25: 60.0}  # at most, by the least gain of a group
GAINED_PART, GAINED_AT_S = 0.9, 300.0

MET = TableForm(
    "start_simulation",
    "Recorded trainings that try plans, and their simulation",
    (
        Column("network", "network"),
        Column("cluster", "devices"),
        Column("steps", "steps"),
        Column("recorded_s", "recorded s", ".1f"),
        Column("own_s", "simulated s", ".1f"),
        Column("error", "error", "+.1%"),
        Column("moves", "moves"),
        Column("same", "same moves"),
        Column("drawn_error", "error with others' noise", "+.1%"),
        Column("now_s", "as it is decided now, s", ".1f"),
    ),
)
REGRET = TableForm(
    "start_regret",
    "Simulated trainings that try plans: seconds beside what was best in hindsight",
    (
        Column("lengths", "one device takes s"),
        Column("cases", "trainings"),
        Column("median_s", "regret s, median", ".1f"),
        Column("high_s", "90th percentile", ".1f"),
        Column("worst_s", "worst", ".0f"),
        Column("median_part", "part of the training, median", ".1%"),
        Column("high_part", "90th percentile", ".1%"),
        Column("worst_part", "worst", ".1%"),
        Column("slower", "slower than one device by 5 % + 5 s", ".0f", "at_most"),
        Column("most_s", "by at most s beyond", ".1f"),
        Column("trials", "plans tried", ".1f"),
    ),
)
SOON = TableForm(
    "start_gain",
    "Simulated trainings of one length: what trying plans gains",
    (
        Column("gain", "best plan's gain"),
        Column("length_s", "one device takes s", ".0f"),
        Column("cases", "trainings"),
        Column("times_one", "end / one device, median", ".2f", "at_most"),
        Column("worst", "90th percentile", ".2f"),
        Column("gained", "gained of the best plan's, median", ".0%", "at_least"),
    ),
)


def met_rows(records: Sequence[dict[str, Any]]) -> list[Row]:
    """Return a row for each recording, and one of the median and the worst error.

    Parameters
    ----------
    records : as `regret.met` returns them.
    """
    rows = []
    for record in records:
        cells = {
            "network": title_of(record["network"]),
            "cluster": cluster_text(record["shares"], "process"),
            "steps": record["steps"],
            "recorded_s": record["recorded_s"],
            "own_s": record["own_s"],
            "error": record["own_s"] / record["recorded_s"] - 1,
            "moves": record["recorded_moves"],
            "same": "yes" if record["same_moves"] else "no",
            "drawn_error": statistics.median(record["drawn_s"]) / record["recorded_s"] - 1,
            "now_s": record["now_s"],
        }
        rows.append(table_row(cells))
    for title, of in (("median of magnitudes", statistics.median), ("worst", max)):
        errors = {name: of([abs(row.numbers[name]) for row in rows[: len(records)]]) for name in ("error", "drawn_error")}
        rows.append(table_row({"network": title, **errors}))
    return rows


def regret_rows(records: Sequence[dict[str, Any]]) -> list[Row]:
    """Return a row for each range of lengths, and one of all.

    Parameters
    ----------
    records : as `regret.cluster_record` returns them.
    """
    runs = [run for record in records for run in record["drawn"]]
    groups = {f"{low:g} to {high:g}": [r for r in runs if low <= r["length_s"] < high] for low, high in LENGTHS}
    groups = {**groups, "all": runs, "all, length known": [r for r in runs if r["is_known"]]}
    return [_regret_row(title, group) for title, group in groups.items() if group]


def _regret_row(title: str, runs: Sequence[dict[str, Any]]) -> Row:
    regret_s = np.array([run["policy_s"] - run["hindsight_s"] for run in runs])
    parts = regret_s / np.array([run["hindsight_s"] for run in runs])
    beyond_s = np.array([beyond_one_s(run) for run in runs])
    cells = {
        "lengths": title,
        "cases": len(runs),
        "median_s": float(np.median(regret_s)),
        "high_s": float(np.percentile(regret_s, 90)),
        "worst_s": float(regret_s.max()),
        "median_part": float(np.median(parts)),
        "high_part": float(np.percentile(parts, 90)),
        "worst_part": float(parts.max()),
        "slower": int((beyond_s > 0).sum()),
        "most_s": max(0.0, float(beyond_s.max())),
        "trials": statistics.mean(len(run["trials"]) for run in runs),
    }
    return table_row(cells, {"slower": 0})


def beyond_one_s(run: dict[str, Any]) -> float:
    """Return the seconds by which a training is later than one device, 5 % and 5 s; negative where it is not.

    Parameters
    ----------
    run : as `regret.trained` returns it.
    """
    return float(run["policy_s"] - ALLOWED_PART * run["one_s"] - ALLOWED_S)


def soon_rows(records: Sequence[dict[str, Any]]) -> list[Row]:
    """Return a row for each range of gains and length.

    Parameters
    ----------
    records : as `regret.cluster_record` returns them.
    """
    rows = []
    for low, high in GAINS:
        runs = [run for record in records for run in record["fixed"] if low <= run["gain"] < high]
        for length_s in sorted({run["length_s"] for run in runs}):
            group = [run for run in runs if run["length_s"] == length_s]
            ratios = [run["policy_s"] / run["one_s"] for run in group]
            title = f"{low:g} or more" if math.isinf(high) else f"{low:g} to {high:g}"
            cells = {"gain": title, "length_s": length_s, "cases": len(group), "times_one": statistics.median(ratios)}
            cells["worst"] = float(np.percentile(ratios, 90))
            wanted = {"times_one": 1.0} if length_s >= BREAK_EVEN_S.get(low, math.inf) else {}
            if low > 1.0:
                cells["gained"] = statistics.median(gained(run) for run in group)
                wanted |= {"gained": GAINED_PART} if length_s >= GAINED_AT_S else {}
            rows.append(table_row(cells, wanted))
    return rows


def gained(run: dict[str, Any]) -> float:
    """Return what a training gained of what the best plan would have gained over one device.

    Parameters
    ----------
    run : as `regret.trained` returns it, of a gain above 1.
    """
    return float((run["one_s"] - run["policy_s"]) / (run["one_s"] - run["hindsight_s"]))
