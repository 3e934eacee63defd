"""Profiles of schema versions 1 and 2: keys of version 1 had other names, and the optimizer was a text, such as "sgd(momentum=0.9)"."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec

EARLIER = (1, 2)
_RENAMED = {"call_s": "launch_s", "made": "measured_at"}  # of version 1
# A name, and one option at most: no more was written. What does not fit after the name is ignored, as it was.
_OPTIMIZER = re.compile(r"\s*(?P<name>\w*)(?:\((?:momentum=(?P<momentum>\d+(?:\.\d+)?(?:e[+-]?\d+)?)|(?P<amsgrad>amsgrad=True))\))?")


def current_fields(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a profile's document with the fields of the present schema; one of the present version is returned as it is.

    Parameters
    ----------
    document : JSON object of a profile, not checked yet.
    """
    if document.get("version") not in EARLIER:
        return document
    current = {_RENAMED.get(key, key): value for key, value in document.items()} if document["version"] == 1 else {**document}
    if isinstance(current.get("optimizer"), str):
        current["optimizer"] = dataclasses.asdict(optimizer_of_text(current["optimizer"]))
    return current


def optimizer_of_text(text: str) -> OptimizerSpec:
    """Return the record of an optimizer's text in a profile of version 1 or 2.

    Examples
    --------
    >>> optimizer_of_text("sgd(momentum=0.9)") == OptimizerSpec("sgd", momentum=0.9)
    True
    """
    match = _OPTIMIZER.match(text)
    assert match is not None  # each part of the form may be empty
    return OptimizerSpec(match["name"].lower(), momentum=float(match["momentum"] or 0.0), amsgrad=match["amsgrad"] is not None)
