"""What calibration.py concludes from the figures of its cases, and its tables. Pure functions."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row


def errors(case: Mapping[str, Any], predicted_s: Sequence[float], wanted: bool | None = None) -> list[float]:
    """Return predicted / measured - 1 of the plans of a case.

    Parameters
    ----------
    case : as `calibration.run` returns it.
    predicted_s : (plans,) seconds.
    wanted : only plans that refinement ran, or only those it did not; None for all.
    """
    rounds_s, tried = case["rounds_s"], case["plans"]
    return [
        seconds / statistics.median(rounds_s[name]) - 1
        for name, seconds in zip(tried, predicted_s)
        if wanted is None or tried[name] == wanted
    ]


def row(case: Mapping[str, Any]) -> Row:
    """Return the row of a case; of one that failed, why."""
    texts = {"network": f"{case['network']}, batch {case['batch']}", "seed": case["seed"], "cluster": case["cluster"]}
    if "failure" in case:
        return table_row({**texts, "failure": case["failure"]})
    by_profile = case["predicted_s"]
    return table_row(
        {
            **texts,
            "default_s": case["calibration_s"]["default"],
            "thorough_s": case["calibration_s"]["thorough"],
            "plans": len(case["plans"]),
            "default_errors": errors(case, by_profile["default"]),
            "thorough_errors": errors(case, by_profile["thorough"]),
            "run_errors": errors(case, by_profile["refined"], True) or None,
            "never_run_errors": errors(case, by_profile["refined"], False) or None,
            "refinement_s": case["refinement_s"],
            "gain": case["gain"],
        }
    )


def term_rows(cases: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return a row for each term of the predictor: the errors of all plans of several devices without it."""
    measured = [case for case in cases if "failure" not in case]
    rows = []
    for term in dict.fromkeys(term for case in measured for term in case["without_s"]):
        all_errors = [(name, error) for case in measured for name, error in zip(case["plans"], errors(case, case["without_s"][term]))]
        cells: dict[str, Any] = {"term": term}
        for kind, chosen in (("split", False), ("alone", True)):
            of_kind = [error for name, error in all_errors if name.startswith("alone") == chosen]
            if of_kind:
                cells |= {
                    f"{kind}_median": statistics.median(map(abs, of_kind)),
                    f"{kind}_bias": statistics.median(of_kind),
                    f"{kind}_worst": max(of_kind, key=abs),
                }
        rows.append(table_row(cells))
    return rows


def summarise(rows: Sequence[Row]) -> list[str]:
    """Return the median and worst errors of all plans by each profile."""
    titles = {
        "default_errors": "Predicted by the default calibration",
        "thorough_errors": "Predicted by the thorough calibration",
        "run_errors": "Predicted by the refined profile, plans that refinement ran",
        "never_run_errors": "Predicted by the refined profile, plans that it never ran",
    }
    sentences = []
    for key, title in titles.items():
        values = [error for each in rows for error in each.lists.get(key, ())]
        if values:
            median, worst = statistics.median(map(abs, values)), max(values, key=abs)
            sentences.append(f"- {title}: median error {median:.1%}, worst {worst:+.1%}, {len(values)} in all.")
    return ["\n".join(sentences)] if sentences else []


CASES = TableForm(
    "calibration",
    "Default and thorough calibration, and refinement",
    (
        Column("network", "network"),
        Column("seed", "seed"),
        Column("cluster", "cluster"),
        Column("default_s", "default s", ".0f"),
        Column("thorough_s", "thorough s", ".0f"),
        Column("plans", "plans", ".0f"),
        Column("default_errors", "errors, default", "+.0%"),
        Column("thorough_errors", "errors, thorough", "+.0%"),
        Column("run_errors", "errors refined, plans run", "+.0%"),
        Column("never_run_errors", "errors refined, plans never run", "+.0%"),
        Column("refinement_s", "refinement s", ".0f"),
        Column("gain", "x faster by refinement", ".2f"),
        Column("failure", "failed"),
    ),
    summarise=summarise,
)
TERM_ERRORS = TableForm(
    "predictor_terms",
    "Errors of the default calibration without one term of the predictor",
    (
        Column("term", "left out"),
        Column("split_median", "plans of several devices: median error", ".1%"),
        Column("split_bias", "median with sign", "+.1%"),
        Column("split_worst", "worst", "+.1%"),
        Column("alone_median", "devices alone: median error", ".1%"),
        Column("alone_bias", "median with sign (alone)", "+.1%"),
        Column("alone_worst", "worst (alone)", "+.1%"),
    ),
)
