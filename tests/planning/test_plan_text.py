from __future__ import annotations

from hetero_mtf.planning.plan import Plan
from hetero_mtf.planning.plan_text import aligned, stage_rows
from tests.planning.networks import cluster_of, pair_net


def test_columns_are_padded_names_to_the_left_and_numbers_to_the_right() -> None:
    rows = [["layer", "layout", "cpu:0"], ["a", "column", "7"], ["longer name", "row", "12"]]
    assert list(aligned(rows)) == ["layer        layout  cpu:0", "a            column      7", "longer name  row        12"]


def test_a_stage_is_a_heading_and_a_row_a_layer() -> None:
    plan = Plan.filters(pair_net(), [2, 0, 1], cluster_of(3), 8)
    rows = stage_rows(plan.stages[0], plan.devices)
    assert rows[0] == ["layer", "layout", "worker:0", "worker:2"] and rows[1] == ["input", "replicated", "all", "all"]
    assert rows[2] == ["first", "column", "8", "4"] and len(rows) == 6
