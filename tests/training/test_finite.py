"""States with NaN or infinity: where they begin, and what they may not replace."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

from hetero_mtf.errors import NotFiniteError
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.training.checkpoint import State, save_state
from hetero_mtf.training.finite import check_replacement, first_not_finite, holds_finite
from tests.training.setting import net

GRAPH = layer_graph(net())
GOOD = {"001/kernel": np.ones(3), "005/kernel": np.zeros(2)}
LATE = {**GOOD, "005/kernel/momentum": np.array([0.0, np.inf])}
BAD = {"001/kernel": np.array([np.nan]), "005/kernel": np.array([np.inf])}


def _save(path: pathlib.Path, values: dict[str, Any]) -> None:
    save_state(path, State("abc", "SGD", values, 1, 0))


@pytest.mark.parametrize("values, expected", [(GOOD, None), ({}, None), (LATE, 5), (BAD, 1)])
def test_the_first_layer_is_the_first_in_the_order_of_the_graph_slots_counted(values: dict[str, Any], expected: int | None) -> None:
    assert first_not_finite(GRAPH, values) == (None if expected is None else GRAPH.layers[expected].name)


def test_a_state_that_is_not_finite_replaces_one_of_its_kind_but_no_finite_one(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state"
    check_replacement(path, GRAPH, BAD, 3, only_finite=False)  # nothing is there
    with pytest.raises(NotFiniteError, match="the state after step 3 is not saved to .* not finite from layer first on; use"):
        check_replacement(path, GRAPH, BAD, 3, only_finite=True)
    _save(path, BAD)
    assert not holds_finite(path)
    check_replacement(path, GRAPH, LATE, 3, only_finite=False)
    _save(path, GOOD)
    assert holds_finite(path)
    check_replacement(path, GRAPH, GOOD, 3, only_finite=True)
    with pytest.raises(NotFiniteError, match="use a smaller learning rate"):
        check_replacement(path, GRAPH, LATE, 3, only_finite=False)


def test_states_that_do_not_say_and_files_that_are_none_count_as_finite(tmp_path: pathlib.Path) -> None:
    with open(tmp_path / "older", "wb") as file:
        np.savez(file, meta=np.frombuffer(json.dumps({"kind": "checkpoint"}).encode(), np.uint8))
    (tmp_path / "text").write_text("something else")
    (tmp_path / "cut").write_bytes((tmp_path / "older").read_bytes()[:100])
    assert all(holds_finite(tmp_path / name) for name in ("older", "text", "cut")) and not holds_finite(tmp_path / "absent")
