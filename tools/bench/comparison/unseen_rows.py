"""What unseen.py concludes from the figures of a case, and its table. Pure functions."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.planning.profile.spread import median_and_spread
from tools.bench.comparison.lost import ideal_s
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

ALONE, EQUAL, BEFORE, AFTER = "alone", "equal", "before", "after"
VIOLATED = "yes"


def quartile_range_s(rounds_s: Sequence[float]) -> float:
    """Return the seconds between the first and the third quartile of rounds; 0 of one round.

    Parameters
    ----------
    rounds_s : (rounds,) seconds per step.

    Examples
    --------
    >>> quartile_range_s([1.0, 1.5, 2.0, 2.5, 9.0])
    1.0
    """
    median_s, spread = median_and_spread(rounds_s)
    return spread * median_s


def slower_than(rounds_s: Sequence[float], others_s: Sequence[float]) -> bool:
    """Return whether rounds are slower than others beyond the spread: their medians differ by more than either one's quartile range.

    Parameters
    ----------
    rounds_s, others_s : (rounds,) seconds per step, measured in turns.

    Examples
    --------
    >>> slower_than([1.2, 1.2, 1.3], [1.0, 1.0, 1.1])
    True
    >>> slower_than([1.0, 1.1, 1.6], [0.9, 1.0, 1.1])
    False
    """
    beyond_s = statistics.median(rounds_s) - statistics.median(others_s)
    return beyond_s > max(quartile_range_s(rounds_s), quartile_range_s(others_s))


def conclusions(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return ideal, efficiencies, errors of prediction, spread, ceiling and violation of a case that was measured.

    Parameters
    ----------
    case : with rounds_s (arrangement -> seconds per step of each round), predicted_s (arrangement -> seconds), ceilings and runs.

    Returns
    -------
    medians_s and, by arrangement, efficiency and error; both have "after" only where there was a refinement. A violation is
    that what trains in the end is slower than the fastest device alone beyond the spread. run_errors are those of the plans that
    refinement tried, predicted by the calibrated profile and by the profile as corrected up to then.
    """
    rounds_s = case["rounds_s"]
    medians_s = {name: statistics.median(each) for name, each in rounds_s.items()}
    devices = [name for name in rounds_s if name.startswith(ALONE)]
    fastest = min(devices, key=lambda name: medians_s[name])
    ideal = ideal_s([medians_s[name] for name in devices])
    final = AFTER if AFTER in rounds_s else BEFORE
    planned = [name for name in (BEFORE, AFTER) if name in rounds_s]
    runs = [(run, statistics.median(run["step_s"])) for run in case["runs"] if run["step_s"]]
    return {
        "medians_s": medians_s,
        "ideal_s": ideal,
        "efficiency": {name: ideal / medians_s[name] for name in planned},
        "error": {name: case["predicted_s"][name] / medians_s[name] - 1 for name in planned},
        "ceiling": max(case["ceilings"].values()),
        "together": max(case["together_ceilings"].values()) if "together_ceilings" in case else None,
        "spread": max(median_and_spread(each)[1] for each in rounds_s.values()),
        "times_fastest": medians_s[fastest] / medians_s[final],
        "violation": slower_than(rounds_s[final], rounds_s[fastest]),
        "run_errors": {key: [run[key] / step_s - 1 for run, step_s in runs] for key in ("first_predicted_s", "predicted_s")},
    }


def row(case: Mapping[str, Any]) -> Row:
    """Return the row of a case; of one that failed, why."""
    texts = {"network": f"{case['network']}, batch {case['batch']}", "seed": case["seed"], "cluster": case["cluster"]}
    if "failure" in case:
        return table_row({**texts, "failure": case["failure"]})
    figures = conclusions(case)
    medians_s, efficiency, error = figures["medians_s"], figures["efficiency"], figures["error"]
    after = AFTER in efficiency
    numbers = {
        "alone_ms": [1e3 * seconds for name, seconds in medians_s.items() if name.startswith(ALONE)],
        "ideal_ms": 1e3 * figures["ideal_s"],
        "equal_ms": 1e3 * medians_s[EQUAL],
        "predicted_ms": 1e3 * case["predicted_s"][BEFORE],
        "before_ms": 1e3 * medians_s[BEFORE],
        "corrected_ms": 1e3 * case["predicted_s"][AFTER] if after else None,
        "after_ms": 1e3 * medians_s[AFTER] if after else None,
        **{f"efficiency_{name}": efficiency.get(name) for name in (BEFORE, AFTER)},
        **{f"error_{name}": error.get(name) for name in (BEFORE, AFTER)},
        **{key: figures[key] for key in ("ceiling", "together", "times_fastest", "spread")},
        "calibration_s": case["calibration_s"],
        "refinement_s": case["refinement_s"],
        "first_errors": figures["run_errors"]["first_predicted_s"] or None,
        "corrected_errors": figures["run_errors"]["predicted_s"] or None,
    }
    chosen = {"chosen": case["strategies"][BEFORE], "refined": case["strategies"].get(AFTER)}
    return table_row({**texts, **chosen, **numbers, "violation": VIOLATED if figures["violation"] else "no"})


def summarise(rows: Sequence[Row]) -> list[str]:
    """Return the medians of each cluster, then violations, failures and the errors of all predictions."""
    sentences = []
    for cluster in dict.fromkeys(each.texts["cluster"] for each in rows):
        there = [each for each in rows if each.texts["cluster"] == cluster and "failure" not in each]
        parts = [_median_text(there, f"efficiency_{name}", f"{name} refinement") for name in (BEFORE, AFTER)]
        parts.append(_median_text(there, "ceiling", "the communication ceiling"))
        parts.append(_median_text(there, "together", "the same for devices that slow each other"))
        count = f"{len(there)} network{'' if len(there) == 1 else 's'}"
        sentences.append(f"At {cluster}, {count}: median efficiency {', '.join(filter(None, parts)) or 'not measured'}.")
    failed = sum("failure" in each for each in rows)
    violated = sum(each.texts.get("violation") == VIOLATED for each in rows)
    sentences.append(f"Slower than the fastest device alone: {violated} of {len(rows) - failed}. Failed: {failed} of {len(rows)}.")
    for name in (BEFORE, AFTER):
        errors = [each.numbers[f"error_{name}"] for each in rows if f"error_{name}" in each]
        sentences += [_errors_text(f"Predictions {name} refinement", errors)] if errors else []
    tried = {key: [error for each in rows for error in each.lists.get(key, ())] for key in ("first_errors", "corrected_errors")}
    if all(tried.values()):
        sentences.append(_errors_text("Plans tried by refinement, predicted from calibration alone", tried["first_errors"]))
        sentences.append(_errors_text("The same, predicted before each run with what was corrected by then", tried["corrected_errors"]))
    return ["\n".join(f"- {sentence}" for sentence in sentences)]


def _median_text(rows: Sequence[Row], key: str, name: str) -> str:
    values = [each.numbers[key] for each in rows if key in each.numbers]
    return f"{statistics.median(values):.2f} ({name})" if values else ""


def _errors_text(name: str, errors: Sequence[float]) -> str:
    return f"{name}: median error {statistics.median(map(abs, errors)):.1%}, worst {max(errors, key=abs):+.1%}, {len(errors)} in all."


TABLE = TableForm(
    "unseen",
    "Networks that nobody chose",
    (
        Column("network", "network"),
        Column("seed", "seed"),
        Column("cluster", "cluster"),
        Column("chosen", "auto chooses"),
        Column("refined", "refined to"),
        Column("alone_ms", "each device alone ms", ".0f"),
        Column("ideal_ms", "ideal ms", ".0f"),
        Column("equal_ms", "equal batches ms", ".0f"),
        Column("predicted_ms", "predicted ms", ".0f"),
        Column("before_ms", "auto ms", ".0f"),
        Column("corrected_ms", "corrected prediction ms", ".0f"),
        Column("after_ms", "refined ms", ".0f"),
        Column("efficiency_before", "efficiency of auto", ".2f"),
        Column("efficiency_after", "efficiency refined", ".2f"),
        Column("ceiling", "communication ceiling", ".2f"),
        Column("together", "ceiling together", ".2f"),
        Column("error_before", "error", "+.1%"),
        Column("error_after", "error refined", "+.1%"),
        Column("times_fastest", "x fastest alone", ".2f"),
        Column("violation", "slower than the fastest alone"),
        Column("spread", "spread", ".1%"),
        Column("calibration_s", "calibration s", ".0f"),
        Column("refinement_s", "refinement s", ".0f"),
        Column("first_errors", "errors of refinement's runs from calibration", "+.0%"),
        Column("corrected_errors", "errors of refinement's runs as corrected", "+.0%"),
        Column("failure", "failed"),
    ),
    summarise=summarise,
)
