"""Compares the runs of an example under Keras alone and distributed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

EXACT, SINGLE = 1e-6, 1e-3
"""The greatest relative difference that counts as equal, in float64 and in float32."""
CONFIDENCE = 0.95
_SMALLEST = 1e-12  # magnitudes below count as this: relative differences of what is zero but for rounding mean nothing
_SMALLEST_WEIGHTS = {False: 1e-3, True: 1.0}
"""The same for a weight, by whether in float32: a bias before a batch normalization has no gradient, and trains on its rounding."""
_GIVEN = ("weights", "predictions", "learning_rate", "lr")  # no losses or metrics

Run = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the runs of an example say.

    Parameters
    ----------
    text : "equal", "differs", "named", "crashes", "too slow", "Keras fails", or "nothing compared".
    difference : greatest relative difference; in runs of several seeds, of the means; None where nothing was compared.
    where : the value of the greatest difference, or the sentence of the error.
    """

    text: str
    difference: float | None = None
    where: str = ""


def verdict(keras: Sequence[Run], distributed: Sequence[Run], single: bool) -> Verdict:
    """Return what the runs of one example say; of several seeds where there are several.

    Parameters
    ----------
    keras, distributed : (seeds,) runs of each.
    single : whether they ran in float32.
    """
    failed = next((run for run in keras if run["status"] != "done"), None)
    if failed is not None:
        return Verdict("Keras fails", None, _sentence(failed))
    failed = next((run for run in distributed if run["status"] != "done"), None)
    if failed is not None:
        known = (failed["fault"] or {}).get("named")
        return Verdict("too slow" if failed["status"] == "too slow" else "named" if known else "crashes", None, _sentence(failed))
    if len(keras) > 1:
        return _of_seeds(keras, distributed)
    mine, theirs = flat(distributed[0]), flat(keras[0])
    if not theirs:
        return Verdict("nothing compared")
    if set(mine) != set(theirs):
        other = [name for name in {**mine, **theirs} if name not in mine or name not in theirs]
        return Verdict("differs", None, f"only one side has {', '.join(other[:4])}")
    smallest = {name: _SMALLEST_WEIGHTS[single] if name.split(" ")[2] == "weights" else _SMALLEST for name in theirs}
    differences = {name: relative(mine[name], theirs[name], smallest[name]) for name in theirs}
    where = max(differences, key=differences.__getitem__)
    return Verdict("equal" if differences[where] <= (SINGLE if single else EXACT) else "differs", differences[where], where)


def flat(run: Run) -> dict[str, float]:
    """Return name of a value -> value, of all calls of a run; a name is such as "fit 1 val_loss 2" with the epoch from 1.

    Parameters
    ----------
    run : what one run wrote down.
    """
    values, calls = dict[str, float](), dict[str, int]()
    for entry in run["entries"]:
        call = entry["call"]
        calls[call] = calls.get(call, 0) + 1
        for key, numbers in entry["values"].items():
            values.update({f"{call} {calls[call]} {key} {i}": float(number) for i, number in enumerate(numbers, 1)})
    return values


def relative(mine: float, theirs: float, smallest: float = _SMALLEST) -> float:
    """Return the difference of two numbers relative to the greater magnitude; 0 where both are NaN or the same infinity.

    Parameters
    ----------
    mine, theirs : the numbers.
    smallest : a magnitude below counts as this.
    """
    if mine == theirs or (math.isnan(mine) and math.isnan(theirs)):
        return 0.0
    if not (math.isfinite(mine) and math.isfinite(theirs)):
        return math.inf
    return abs(mine - theirs) / max(abs(mine), abs(theirs), smallest)


def _of_seeds(keras: Sequence[Run], distributed: Sequence[Run]) -> Verdict:
    """Compare means over seeds of all losses and metrics: Welch's interval for the difference, jointly (Bonferroni) of the confidence."""
    mine, theirs = [flat(run) for run in distributed], [flat(run) for run in keras]
    names = [name for name in theirs[0] if name.split(" ")[2] not in _GIVEN and all(name in each for each in (*mine, *theirs))]
    if not names:
        return Verdict("nothing compared")
    outside, differences = list[str](), dict[str, float]()
    for name in names:
        a, b = (np.array([each[name] for each in values]) for values in (mine, theirs))
        differences[name] = relative(float(a.mean()), float(b.mean()))
        if not np.array_equal(a, b) and not _welch(a, b) > (1 - CONFIDENCE) / len(names):
            outside.append(name)
    where = max(outside or names, key=differences.__getitem__)
    return Verdict("differs" if outside else "equal", differences[where], f"mean of {len(keras)} seeds, {where}")


def _welch(mine: Any, theirs: Any) -> float:
    if np.ptp(mine) == 0 and np.ptp(theirs) == 0:
        return 0.0 if mine[0] != theirs[0] else 1.0
    return float(stats.ttest_ind(mine, theirs, equal_var=False).pvalue)


def _sentence(run: Run) -> str:
    error = run["fault"] or {}
    return f"{error.get('kind', '')}: {error.get('text', '')}" if error else run["status"]
