"""Ways to spoil a JSON document, for tests that reading never ends in a traceback."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

_SPOILT = [None, True, -1, 0, 10**400, 1.5, float("nan"), float("inf"), "", "x", [], [0], [[]], {}, {"x": 1}]


def spoilt(document: dict[str, Any], data: st.DataObject) -> dict[str, Any]:
    """Return the document with one to three entries replaced by something else.

    Parameters
    ----------
    document : JSON object.
    data : where choices are drawn from.
    """
    made = copy.deepcopy(document)
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(_places(made)))
        container[key] = copy.deepcopy(data.draw(st.sampled_from(_SPOILT)))
    return made


def _places(document: Any) -> list[tuple[Any, Any]]:
    steps = document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    return [place for key, inner in list(steps) for place in ((document, key), *_places(inner))]
