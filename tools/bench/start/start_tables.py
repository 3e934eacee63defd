"""The tables of `time_to_train`: when trainings end, and what of the gain of the best plan is left after all plans were tried."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from tools.bench.comparison.measured import cluster_text
from tools.bench.start.start_tasks import title_of
from tools.bench.start.started_training import BEST, KERAS, MEASURES, ONE, PROGRESS
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

LARGEST_FIRST_STEP_S = 15.0
ALLOWED_PART, ALLOWED_S = 1.05, 5.0
LARGE_GAIN, SMALL_GAIN = 1.25, 1.15  # of the best plan in steady steps, from where an end to losses is wanted
EVEN_S, LATER_EVEN_S = 60.0, 120.0
STILL = 3  # times the usual seconds
LEAST_PART, PART_FROM_S = 0.9, 300.0  # of the best plan's gain, in trainings of so long or longer
TRIED = next(name for name, measure in MEASURES.items() if measure == "steps")
_COMMON = (Column("network", "network"), Column("cluster", "devices"), Column("length_s", "steps take one device, s", ".0f"))
TABLE = TableForm(
    "time_to_train",
    "Trainings from the start of the process to the end, without a saved profile",
    (
        *_COMMON,
        Column("arrangement", "arrangement"),
        Column("first_step_s", "first step after, s", ".1f", "at_most"),
        Column("end_s", "end after, s", ".0f", "at_most"),
        Column("still_s", "of it standing still, s", ".0f"),
        Column("times_one", "end / one device", ".2f"),
        Column("step_ms", "last ms/step", ".0f"),
    ),
    case=("network", "cluster", "length_s"),
)
GAINS = TableForm(
    "time_to_gain",
    "What is left of the gain of the best plan where it is found by training steps",
    (
        *_COMMON,
        Column("gain", "one device / best plan, steps", ".2f"),
        Column("even_s", "ahead of one device from, s", ".0f", "at_most"),
        Column("part", "part of the gain", ".2f", "at_least"),
    ),
    case=("network", "cluster"),
)


def ends_s(case: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return steps that were taken, and the seconds since the start of the process at which they were.

    Parameters
    ----------
    case : figures of a training.

    Returns
    -------
    (points,) steps and (points,) seconds, both increasing.
    """
    later = case["progress"]
    steps = [PROGRESS * (at + 1) for at in range(len(later) - 1)]
    steps.append(case["steps"])
    if len(steps) > 1 and steps[-1] == steps[-2]:
        steps, later = steps[:-1], later[:-1]
    return np.array([1, *steps]), np.array([case["first_step_s"], *later])


def end_s(case: dict[str, Any], steps: int) -> float:
    """Return the seconds at which a training would have ended with so many steps.

    Parameters
    ----------
    case : figures of a training of as many steps or more.
    """
    if steps >= case["steps"]:
        return float(case["end_s"])
    taken, seconds = ends_s(case)
    return float(np.interp(steps, taken, seconds) + case["end_s"] - seconds[-1])


def still_s(case: dict[str, Any], steps: int) -> float:
    """Return the seconds that a training stood still up to a step: of `PROGRESS` steps that took `STILL` times as long as most, the rest.

    TensorFlow's input pipeline may wait there for a thread of its own, whose period grows to a minute.

    Parameters
    ----------
    case : figures of a training of as many steps or more.
    """
    taken, seconds = ends_s(case)
    lengths = np.diff(seconds[taken <= steps])
    if not len(lengths):
        return 0.0
    usual = float(np.median(lengths))
    return float(sum(length - usual for length in lengths if length > STILL * usual))


def even_s(tried: dict[str, Any], one: dict[str, Any]) -> float:
    """Return the seconds from which a training has taken more steps than another one, for good; the end of the first where it never has.

    Parameters
    ----------
    tried, one : figures of trainings of as many steps.
    """
    taken, seconds = ends_s(tried)
    others = np.interp(taken, *ends_s(one))
    behind = np.flatnonzero(seconds > others)
    return float(seconds[behind[-1] + 1] if len(behind) and behind[-1] + 1 < len(seconds) else seconds[0 if not len(behind) else -1])


def rows(cases: Sequence[dict[str, Any]]) -> list[Row]:
    """Return a row an arrangement and length; wanted are a first step within 15 s, and an end at most 5 % and 5 s after one device's.

    Parameters
    ----------
    cases : of one network and cluster.
    """
    lengths = sorted({case["seconds"] for case in cases if case["arrangement"] == TRIED})
    longest = max(lengths)
    table = []
    for seconds in lengths:
        steps = next(case["steps"] for case in cases if (case["arrangement"], case["seconds"]) == (TRIED, seconds))

        def median_end_s(name: str, length_s: float, count: int = steps) -> float:
            return statistics.median(end_s(case, count) for case in _of(cases, name, length_s))

        one_s = median_end_s(ONE, longest)
        for name in (TRIED, BEST, *[name for name in MEASURES if name != TRIED], ONE, KERAS):
            own = _of(cases, name, seconds if name == TRIED else longest)
            if not own:
                continue
            ended_s = median_end_s(name, own[0]["seconds"])
            cells = {
                "network": title_of(cases[0]["network"]),
                "cluster": cluster_text(cases[0]["shares"], "process"),
                "length_s": seconds,
                "arrangement": name,
                "first_step_s": _median(own, "first_step_s"),
                "end_s": ended_s,
                "still_s": statistics.median(still_s(case, steps) for case in own),
                "times_one": ended_s / one_s,
                "step_ms": 1e3 * _median(own, "step_s"),
            }
            wanted = {"first_step_s": LARGEST_FIRST_STEP_S, "end_s": round(ALLOWED_PART * one_s + ALLOWED_S)} if name == TRIED else {}
            table.append(table_row(cells, wanted))
    return table


def gain_row(cases: Sequence[dict[str, Any]]) -> list[Row]:
    """Return the row of one network and cluster at its longest training; none before the best plan was given.

    Parameters
    ----------
    cases : of one network and cluster.
    """
    longest = max(case["seconds"] for case in cases)
    tried, one, best = (_of(cases, name, longest) for name in (TRIED, ONE, BEST))
    if not (tried and one and best):
        return []
    gain = _median(one, "step_s") / _median(best, "step_s")
    saved_s, possible_s = (_median(one, "end_s") - _median(each, "end_s") for each in (tried, best))
    cells = {
        "network": title_of(cases[0]["network"]),
        "cluster": cluster_text(cases[0]["shares"], "process"),
        "length_s": longest,
        "gain": gain,
        "even_s": statistics.median(even_s(first, second) for first, second in zip(tried, one)),
        "part": saved_s / possible_s if possible_s > 0 else 0.0,
    }
    wanted = {"part": LEAST_PART} if gain >= SMALL_GAIN and longest >= PART_FROM_S else {}
    if gain >= SMALL_GAIN:
        wanted["even_s"] = EVEN_S if gain >= LARGE_GAIN else LATER_EVEN_S
    return [table_row(cells, wanted)]


def rounds_text(fewest: int, most: int, once: str) -> str:
    """Return what figures are medians of.

    Parameters
    ----------
    fewest, most : rounds of a network.
    once : the arrangement that is run in the first round only.
    """
    if most == 1:
        return "One round: figures of the same arrangement differ by a quarter between runs."
    return f"Medians of {most if fewest == most else f'{fewest} to {most}'} rounds; {once}: one run."


def _of(cases: Sequence[dict[str, Any]], arrangement: str, seconds: float) -> list[dict[str, Any]]:
    return [case for case in cases if (case["arrangement"], case["seconds"]) == (arrangement, seconds)]


def _median(cases: Sequence[dict[str, Any]], figure: str) -> float:
    return statistics.median(case[figure] for case in cases)
