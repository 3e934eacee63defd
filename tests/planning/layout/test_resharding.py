from __future__ import annotations

import pytest

from hetero_mtf.planning.layout.records import LayerLayout
from hetero_mtf.planning.layout.resharding import TensorLayout, input_of, output_of, reshardings

WHOLE = TensorLayout()
BATCH = TensorLayout((), "", (3, 1), "devices")
SPLIT = TensorLayout((4, 2), "devices")
BOTH = TensorLayout((4, 2), "filters", (3, 1), "batch")
ROWS = TensorLayout((), "", (3, 1), "batch")


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        (WHOLE, WHOLE, []),
        (WHOLE, SPLIT, ["slice"]),
        (SPLIT, WHOLE, ["all_gather"]),
        (BATCH, WHOLE, ["all_gather"]),
        (WHOLE, BATCH, ["slice"]),
        (BATCH, SPLIT, ["all_to_all"]),
        (SPLIT, BATCH, ["all_to_all"]),
        (BATCH, TensorLayout((), "", (2, 2), "devices"), ["all_gather", "slice"]),
        (SPLIT, TensorLayout((3, 3), "devices"), ["all_gather", "slice"]),
        (BOTH, ROWS, ["all_gather"]),
        (ROWS, BOTH, ["slice"]),
        (BOTH, WHOLE, ["all_gather", "all_gather"]),
    ],
)
def test_moves_are_those_that_the_lowering_makes(old: TensorLayout, new: TensorLayout, kinds: list[str]) -> None:
    assert [move.kind for move in reshardings(old, new)] == kinds


def test_a_gradient_makes_the_moves_in_reverse() -> None:
    back = [move.reverse for move in reshardings(BATCH, SPLIT)]
    assert [(move.kind, move.before, move.after) for move in back] == [("all_to_all", (4, 2), (3, 1))]
    assert [move.reverse.kind for move in reshardings(WHOLE, SPLIT)] == ["all_gather"]


def test_a_row_reads_split_channels_and_gives_whole_ones() -> None:
    row = LayerLayout(1, "row", "row", (4, 2), samples=(), axis="filters")
    assert input_of(row) == TensorLayout((4, 2), "filters") and output_of(row) == WHOLE
    column = LayerLayout(1, "column", "column", (4, 2), "filters", (3, 1), "batch")
    assert input_of(column) == ROWS and output_of(column) == BOTH
