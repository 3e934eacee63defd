"""How far predictions can be trusted: which plans to measure, and errors and regret of what was measured. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MEDIAN_ERROR, WORST_ERROR, REGRET = 0.10, 0.25, 0.05  # at most, of the claim
SLOW = 2.0  # plans predicted to take more than this many times the best are not measured


def chosen(predicted_s: Mapping[str, float], automatic: str, most: int, least: int = 3, also: Sequence[str] = ()) -> list[str]:
    """Return the plans to measure: the automatic one first, then the others by their predictions.

    Parameters
    ----------
    predicted_s : plan -> predicted seconds of a step, of distinct plans.
    automatic : the plan that auto takes.
    most : plans to measure at most; "single" is among them, if there is one.
    least : plans to measure even if they are predicted to take more than `SLOW` times the best.
    also : plans to measure whatever they are predicted to take, as far as there are such.

    Examples
    --------
    >>> chosen({"single": 1.9, "equal": 2.5, "batch": 1.0, "filters": 1.1, "grid": 2.1}, "batch", most=4)
    ['batch', 'filters', 'single']
    >>> chosen({"single": 1.0, "batch": 1.1, "pipeline": 1.4}, "single", most=2, also=["pipeline"])
    ['single', 'pipeline']
    """
    ranked = sorted(predicted_s, key=lambda name: (name != automatic, predicted_s[name]))
    must = [name for name in dict.fromkeys((automatic, "single", *also)) if name in ranked]
    fast = [name for name in ranked if name in must or predicted_s[name] <= SLOW * min(predicted_s.values())]
    slow = [name for name in ranked if name not in fast]
    taken = [*must, *(name for name in fast if name not in must)][:most]
    taken += slow[: max(0, min(least, most) - len(taken))]
    return [name for name in ranked if name in taken]


def distinct(plans: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return name -> names of all plans that are the same as it, itself first.

    Parameters
    ----------
    plans : name -> Plan; two are the same if their stages, collectives and schedules are.
    """
    names: dict[str, list[str]] = {}
    for name, plan in plans.items():
        same = [other for other in names if plans[other].built_from == plan.built_from]
        names.setdefault(same[0] if same else name, []).append(name)
    return names


def error(plan: Mapping[str, Any]) -> float:
    """Return how much more a step was predicted to take than it took, as a part of what it took.

    Parameters
    ----------
    plan : entry of a case, with predicted_s and measured_s.
    """
    return float(plan["predicted_s"]) / float(plan["measured_s"]) - 1


def regret(plans: Sequence[Mapping[str, Any]]) -> float:
    """Return how much longer the plan ranked first took than the fastest one measured.

    Parameters
    ----------
    plans : entries of one case; the one that was predicted to be the cheapest and that auto took is the first.
    """
    times = [float(plan["measured_s"]) for plan in plans]
    return times[0] / min(times) - 1
