"""What `measure` may be: when plans are measured, or the plans of an earlier training."""

from __future__ import annotations

import os
from typing import Any

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.exploration.plan_history import PlanHistory
from hetero_mtf.planning.names import MEASURES, STEPS

DEFAULT = STEPS


def read_measure(measure: Any) -> str | PlanHistory:
    """Return when plans are measured, or the plans of an earlier training, which are repeated.

    Parameters
    ----------
    measure : one of `MEASURES`, a PlanHistory, or the path of its file; None for the default.

    Raises
    ------
    PlanError
        If it is something else.
    HeteroError
        If the file cannot be read.
    """
    if measure is None:
        return DEFAULT
    if isinstance(measure, PlanHistory) or measure in MEASURES:
        return measure  # type: ignore[no-any-return]
    if isinstance(measure, os.PathLike) or (isinstance(measure, str) and (os.path.exists(measure) or os.path.dirname(measure))):
        return PlanHistory.load(measure)
    raise PlanError(f"measure is {measure!r}", f"give one of {', '.join(MEASURES)}, or the file of an earlier training's plans")
