"""Curves over the thickness of slabs beside traced steps."""

from __future__ import annotations

import pytest

from tools.bench.space.slab_speed import curve_row


def test_curves_are_judged_by_passes_and_by_time_beside_what_steps_scatter() -> None:
    curves = [(1.0, 0.100, 0.104, 0.106), (0.5, 0.010, 0.021, 0.019), (1.0, 0.001, 0.0006, 0.0006)]
    row = curve_row({"extent": 64, "shares": [1.0, 0.5], "sets": [], "curves": curves})
    assert row.numbers["passes"] == 3 and row.numbers["median"] == pytest.approx(0.4)
    assert row.numbers["by_time"] == pytest.approx(0.05) and row.numbers["weighted"] == pytest.approx(0.1256 / 0.111 - 1)
    assert row.numbers["apart"] == pytest.approx(1 - 104 / 106)
    assert row.numbers["unlimited"] == pytest.approx((0.05 + 0.4) / 2)
    assert row.wanted == {"median": 0.1, "unlimited": 0.1, "by_time": 0.1}


def test_without_whole_cores_there_is_no_error_on_them() -> None:
    row = curve_row({"extent": 64, "shares": [0.5, 0.4], "sets": ["avx2", "sse41"], "curves": [(0.5, 0.1, 0.1, 0.1), (0.4, 0.1, 0.1, 0.2)]})
    assert row.texts["cluster"] == "0.5@avx2,0.4@sse41"
    assert "unlimited" not in row.wanted and row.wanted.keys() == {"median", "by_time"}
