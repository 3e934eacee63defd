from __future__ import annotations

import dataclasses

from hetero_mtf.planning.layout.records import CollectiveRule, LayerLayout, Prediction, Stage
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.plan.plan_text import aligned, part_text, processor_parts, stage_rows
from tests.planning.networks import cluster_of, pair_net


def test_columns_are_padded_names_to_the_left_and_numbers_to_the_right() -> None:
    rows = [["layer", "layout", "cpu:0"], ["a", "column", "7"], ["longer name", "row", "12"]]
    assert list(aligned(rows)) == ["layer        layout  cpu:0", "a            column      7", "longer name  row        12"]


def test_a_stage_is_a_heading_and_a_row_a_layer() -> None:
    plan = Plan.filters(pair_net(), [2, 0, 1], cluster_of(3), 8)
    rows = stage_rows(plan.stages[0], plan.devices)
    assert rows[0] == ["layer", "layout", "worker:0", "worker:2"] and rows[1] == ["input", "replicated", "all", "all"]
    assert rows[2] == ["first", "column", "8", "4"] and len(rows) == 6


def test_a_part_is_numbers_and_a_text_for_people() -> None:
    both = LayerLayout(0, "a", "column", (5, 3), "filters", (2, 1), "batch")
    stage = Stage((0,), (0, 1, 2, 3), (("batch", 2), ("filters", 2)), (both,))
    assert processor_parts(both, stage) == [(2, 5), (2, 3), (1, 5), (1, 3)]
    missing = dataclasses.replace(both, sizes=(5, 3, 1))
    assert [part_text(part) for part in processor_parts(missing, stage)] == ["2 x ?", "2 x ?", "1 x ?", "1 x ?"]
    assert processor_parts(LayerLayout(0, "a", "replicated"), stage) == [()] * 4 and part_text(()) == "all"


def test_the_methods_of_all_reduces_are_one_line_and_defaults_none() -> None:
    plan = Plan.filters(pair_net(), [2, 1, 1], cluster_of(3), 8)
    assert "All-reduces" not in str(plan)
    two, ring = CollectiveRule("all_reduce", "two_level", 2048), CollectiveRule("all_reduce", "ring", None, (0.5, 0.25, 0.25))
    text = str(dataclasses.replace(plan, collectives=(two, ring)))
    assert "All-reduces: two_level (ring among leaders) up to 2.0 KiB, ring in segments 0.50, 0.25, 0.25 for any size\n" in text + "\n"


def test_buckets_of_gradients_are_stated_where_a_batch_is_split() -> None:
    plan = Plan.batch(pair_net(), [2, 1, 1], cluster_of(3), 8)
    assert "Gradients: in buckets of up to 2.0 KiB" in str(dataclasses.replace(plan, bucket_bytes=2048))
    assert "Gradients: each by itself" in str(dataclasses.replace(plan, bucket_bytes=0))
    assert "Gradients" not in str(Plan.filters(pair_net(), [2, 1, 1], cluster_of(3), 8))


def test_the_repr_of_a_plan_is_one_line_and_its_str_the_full_text() -> None:
    plan = Plan.filters(pair_net(), [2, 0, 1], cluster_of(3), 8)
    assert repr(plan).startswith("<Plan: filters for 5 layers") and "\n" not in repr(plan)
    assert "batch size 8" in repr(plan) and "on worker:0, worker:2" in repr(plan) and repr(plan).endswith("nothing predicted>")
    predicted = dataclasses.replace(plan, predicted=Prediction(0.158, 0.05, 0.1, 0.008, ()))
    assert repr(predicted).endswith("predicted step 158 ms>")
    assert str(plan).count("\n") > 5 and plan.digest in repr(plan)
