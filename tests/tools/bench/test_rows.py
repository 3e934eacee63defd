"""The rows of benches that measure on clusters, from figures that are given here."""

from __future__ import annotations

from typing import Any

import pytest

from tools.bench import auto, collectives, hybrid, overhead, planner, resattnet, uneven_batch, uneven_split
from tools.bench.step import kernel_gradients
from tools.results.publication import TableForm
from tools.results.records import Row
from tools.results.tables import table

PARTS = [{"device": "worker:0", "compute_s": 0.3, "communication_s": 0.05, "idle_s": 0.0}]


def cells(form: TableForm, rows: list[Row]) -> list[list[str]]:
    """Return the cells of a table, the headings first."""
    assert {key for row in rows for key in (*row.texts, *row.numbers, *row.lists)} <= {column.key for column in form.columns}
    lines = table(form.columns, rows).splitlines()
    return [line.strip("| ").split(" | ") for line in (lines[0], *lines[2:])]


def _auto(automatic_s: float = 0.5) -> dict[str, Any]:
    times = {"alone 0": 0.7, "alone 1": 1.4, auto.EQUAL: 0.8, auto.EQUAL_FILTERS: 0.9, "auto": automatic_s, auto.DDP: 0.75}
    return {
        "network": "vgg11",
        "shares": [1.0, 0.5],
        "batch": 32,
        "automatic": "layers",
        "predicted_s": 0.45,
        "times": {name: {"measured_s": seconds} for name, seconds in times.items()},
        "ideal_s": 0.4,
        "efficiency": 0.4 / automatic_s,
        "ceiling": 0.95,
        "together": 0.9,
        "lost": {"compute_s": 0.05, "communication_s": 0.1, "idle_s": 0.05},
        "times_as_fast": {name: times[name] / automatic_s for name in (auto.EQUAL, auto.EQUAL_FILTERS)},
        "predicted_parts": PARTS,
        "measured_parts": PARTS,
    }


def test_the_efficiency_of_auto_has_a_cross_where_it_is_missed() -> None:
    row = cells(auto.EFFICIENCIES, [auto.efficiency_row(_auto())])[1]
    assert row[:7] == ["VGG-11, batch 32", "1.0,0.5", "700 / 1400", "400", "450", "500", "layers"]
    assert row[7:] == ["0.80", "≥ 0.9 ✗", "0.95", "0.90", "5% / 10% / 5%", "300+50+0", "300+50+0"]
    assert auto.efficiency_row(_auto(0.44)).numbers["efficiency"] > 0.9
    assert auto.efficiency_row({**_auto(), "limit": "compute"}).texts["cluster"].endswith(":compute")


def test_auto_is_compared_with_every_arrangement_and_wanted_to_be_faster_than_other_libraries() -> None:
    rows = [row[1:] for row in cells(auto.COMPARISON, auto.comparison_rows(_auto()))]
    assert ["worker:1 alone", "-", "1400", "2.80", "-"] in rows and ["auto (layers)", "450", "500", "1.00", "-"] in rows
    assert [auto.DDP, "-", "750", "1.50", "≥ 1.6 ✗"] in rows and rows[-1][0] == "ideal"


def test_auto_is_compared_with_the_better_equal_split_of_the_attention_network() -> None:
    row = cells(resattnet.TABLE, [resattnet.row(_auto())])[1]
    assert row[:9] == ["1.0,0.5", "32", "700 / 1400", "800", "900", "450", "500", "layers", "400"]
    assert row[9:12] == ["0.80", "≥ 0.85 ✗", "1.60"]


def _strategies(**seconds: float) -> dict[str, Any]:
    return {"shares": [1.0, 0.5], "batch": 64, "seconds": seconds, "ideal_s": 0.4, "automatic": "batch"}


def test_uneven_batches_are_wanted_to_be_faster_than_other_libraries_only() -> None:
    seconds = {"alone 0": 0.7, "alone 1": 1.4, "equal": 0.8, "planned": 0.5, uneven_batch.MIRRORED: 0.6}
    rows = cells(uneven_batch.TABLE, uneven_batch.rows({**_strategies(**seconds), "predicted_s": 0.45, "samples": [44, 20]}))
    assert ["1.0,0.5", "planned", "44:20", "450", "500", "128.0", "1.00", "-"] in rows
    assert ["1.0,0.5", "our equal batches", "64", "-", "800", "80.0", "1.60", "-"] in rows
    assert [row[-2:] for row in rows if row[1] == uneven_batch.MIRRORED] == [["1.20", "≥ 1.35 ✗"]]


def test_a_hybrid_is_wanted_to_be_faster_than_what_it_is_made_of() -> None:
    seconds = {"alone 0": 0.7, "batch": 0.6, "filters": 0.4, "hybrid": 0.5}
    rows = cells(hybrid.TABLE, hybrid.rows({**_strategies(**seconds), "predicted_s": {"batch": 0.55, "filters": 0.5, "hybrid": 0.5}}))
    assert [row[2:] for row in rows[1:4]] == [
        ["worker:0 alone", "-", "700", "0.57", "1.40", "-"],
        ["batch", "550", "600", "0.67", "1.20", "≥ 1 ✓"],
        ["filters", "500", "400", "1.00", "0.80", "≥ 1 ✗"],
    ]


@pytest.mark.parametrize("shares, limit", [("1.0,0.5", ["≥ 1.35 ✓"]), ("1.0,0.4", [])])
def test_the_cases_of_the_claim_have_limits(shares: str, limit: list[str]) -> None:
    seconds = {"alone 0": 0.3, "alone 1": 0.6, "equal": 0.3, "planned": 0.2, "stock equal": 0.32}
    ratios = {"times_as_fast_as_equal": 1.6, "times_as_fast_as_fastest_alone": 1.5, "efficiency": 1.0}
    case = {"shares": shares, "batch": 16, "seconds": seconds, "predicted_s": 0.19, "ideal_s": 0.2, **ratios}
    row = cells(uneven_split.TABLE, [uneven_split.row(case)])[1]
    assert row[: 9 + len(limit)] == [shares, "16", "300 / 600", "320", "300", "190", "200", "200", "1.60", *limit]


def test_one_device_is_compared_with_both_ways_of_compiling() -> None:
    seconds = {"keras": [0.1, 0.1], "keras, no jit": [0.2, 0.2], "distributed": [0.1, 0.12], "trainer": [0.1, 0.1]}
    row = cells(overhead.TABLE, [overhead.row("net", seconds, 1.05)])[1]
    assert row[:6] == ["net", "100.0", "200.0", "110.0", "100.0", "1.00 to 1.20"]
    assert row[6:] == ["1.10", "≤ 1.05 ✗", "0.55", "≤ 1.05 ✓", "1.00", "≤ 1.05 ✓", "0.50", "≤ 1.05 ✓"]


def test_a_size_has_predicted_and_measured_times_of_each_all_reduce_and_the_cheapest() -> None:
    predicted = {size: {"butterfly": 1e-3, "halving_doubling": 2e-3, "ring": 3e-3} for size in collectives.SIZES}
    measured = {size: {"butterfly": 2.5e-3, "halving_doubling": 2e-3, "ring": 3e-3} for size in collectives.SIZES}
    row = cells(collectives.TABLE, collectives.rows(predicted, measured))[1]
    assert row[1:] == ["1.00 / 2.50", "2.00 / 2.00", "3.00 / 3.00", "butterfly", "halving_doubling"]


def test_planning_has_its_limit_of_seconds() -> None:
    proof = {"status": "optimal", "gap": 0.001, "space": "all"}
    times = {"cpu_s": 6.0, "limit_s": 5.0, "wall_s": 7.0, "step_s": 0.1}
    case = {"network": "net", "layers": 9, "devices": 8, "strategy": "auto", "taken": "grid", "used": 6, "proof": proof, **times}
    assert cells(planner.TABLE, [planner.row(case)])[1][4:] == ["6.0", "≤ 5 ✗", "7.0", "100.0", "grid", "6", "optimal", "0.10%", "all"]


def test_a_form_of_a_kernels_gradient_that_is_not_the_fastest_is_a_miss() -> None:
    seconds = {"input": 0.4, "padded_input": 0.2, "output": 0.4, "padded_output": 0.25}
    rows = [kernel_gradients.row((8, 8, 8), *channels, seconds) for channels in ((16, 16), (48, 16))]
    assert [row.texts["taken"] for row in rows] == ["padded input", "output"]
    assert [row.numbers["part"] for row in rows] == [1.0, 0.5] and cells(kernel_gradients.FORM, rows)[2][-1] == "≥ 0.9 ✗"
