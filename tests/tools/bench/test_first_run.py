"""The rows of the first run."""

from __future__ import annotations

from hetero_mtf.report.step_time import StepTime, StepTimes
from tools.bench.first_run import ACCURACY, remark, rows

TIMES = StepTimes(
    (StepTime("worker:0", 0.2, 0.3), StepTime("worker:1", 0.4, 0.6)),
    StepTime("planned (filters)", 0.16, 0.25),
    StepTime("equal split", None, 0.35),
)


def test_there_is_a_row_an_arrangement_relative_to_the_plan() -> None:
    table = rows("emulate:1.0,0.5", TIMES)
    names = [row.texts["arrangement"] for row in table]
    assert names == ["worker:0 alone", "worker:1 alone", "equal split", "planned (filters)", "ideal"]
    assert round(table[0].numbers["times_planned"], 6) == 1.2 and table[3].numbers["measured_ms"] == 250.0
    assert "predicted_ms" not in table[2].numbers and round(table[4].numbers["measured_ms"], 6) == 200.0


def test_the_accuracy_is_read_from_what_was_printed() -> None:
    match = ACCURACY.search("efficiency (ideal / planned)        1.02       0.83\ntest accuracy                          -     0.9778\n")
    assert match is not None and match[1] == "0.9778"
    assert remark(TIMES, 0.9778) == "Efficiency (ideal / planned): 0.83 predicted, 0.80 measured; test accuracy 0.9778."
    assert remark(TIMES, None).endswith("0.80 measured.")
