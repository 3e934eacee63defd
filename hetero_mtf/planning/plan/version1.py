"""Plans of schema version 1, whose keys and strategies had other names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hetero_mtf.json_records import renamed
from hetero_mtf.planning.names import EARLIER_NAMES

PART_NAMES = {"busy_s": "compute_s", "sending_s": "communication_s", "waiting_s": "idle_s"}
_NAMES = {**PART_NAMES, "call_s": "launch_s", "binding": "bottleneck", "worth": "contributions", "supposed": "what_if"}


def current_keys(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a plan's document with the names of the present schema; one of another version than 1 is returned as it is.

    Parameters
    ----------
    document : JSON object of a plan, not checked yet.
    """
    if document.get("version") != 1:
        return document
    current = renamed(document, _NAMES)
    entries = current.get("alternatives")
    for entry in [current, *(entries if isinstance(entries, list) else [])]:
        if isinstance(entry, dict) and isinstance(entry.get("strategy"), str):
            entry["strategy"] = current_strategy(entry["strategy"])
    return {**current}


def current_strategy(name: str) -> str:
    """Return the present name of a strategy of version 1."""
    return EARLIER_NAMES.get(name, name)
