"""Changing devices: each batch is compared with that of one device, stage by stage."""

from __future__ import annotations

import pytest

from tools.bench.faults.changing_devices import FORM, STEPS, rows, stage_figures
from tools.results.publication import shown


def test_stages_have_their_devices_their_last_plan_and_the_largest_error() -> None:
    wanted = [(stage, 2.0 + batch, 0.1, "alone") for stage in range(3) for batch in range(STEPS)]
    got = [(stage, loss, 5.0 if loss == 2.0 else 0.2, f"plan {stage}") for stage, loss, _, _ in wanted]
    got[STEPS + 50] = (1, 52.4, 0.2, "plan 1")
    figures = stage_figures(got, wanted)
    assert [figure["devices"] for figure in figures] == ["4 x 0.3", "2 x 0.3", "1 x 0.3 + 2 x 0.15"]
    assert [figure["plan"] for figure in figures] == ["plan 0", "plan 1", "plan 2"] and figures[0]["wait_s"] == 5.0
    assert [figure["error"] for figure in figures] == [0.0, pytest.approx(0.4 / 52.0), 0.0]
    found = rows(figures, differing=0)
    assert found[1].texts["stage"] == "101 to 200" and found[2].numbers["step_ms"] == 200.0 and "differing" not in found[1]
    assert "≤ 1e-08 ✗" in shown(FORM, found) and "≤ 0 ✓" in shown(FORM, found)


def test_a_batch_that_is_missing_is_an_error() -> None:
    batches = [(stage, 2.0, 0.1, "plan") for stage in range(3)]
    with pytest.raises(ValueError, match="zip"):
        stage_figures(batches[1:], batches)
