"""Traces of trainings that try plans: their file, and what they tell."""

from __future__ import annotations

import json
import math
import pathlib

import pytest

from hetero_mtf.errors import DataError
from tests.tools.bench.start.made_up_traces import made_up_trace
from tools.bench.start.start_trace import COUNTED, OVERLAPPED, StartTrace, load_all


def test_a_trace_is_read_as_it_was_written(tmp_path: pathlib.Path) -> None:
    trace = made_up_trace()
    trace.save(tmp_path / "trace.json")
    read = StartTrace.load(tmp_path / "trace.json")
    assert (read.plans, read.events, read.layers, read.shares) == (trace.plans, trace.events, trace.layers, trace.shares)
    assert list(read.seconds()) == pytest.approx(list(trace.seconds()), abs=1e-4)
    assert load_all(tmp_path) == [read] and (tmp_path / "trace.json").stat().st_size < 4000


def test_a_file_that_lacks_something_is_refused(tmp_path: pathlib.Path) -> None:
    made_up_trace().save(tmp_path / "trace.json")
    document = json.loads((tmp_path / "trace.json").read_text())
    del document["runs"][0]["ms"]
    (tmp_path / "trace.json").write_text(json.dumps(document))
    with pytest.raises(DataError, match="no trace of a training"):
        StartTrace.load(tmp_path / "trace.json")


def test_steps_are_told_as_ratios_to_the_usual_step_of_their_plan() -> None:
    trace = made_up_trace()
    assert trace.median_s(0) == 1.0 and trace.median_s(1) == pytest.approx(0.6)
    assert trace.ratios((OVERLAPPED,), "build") == [[1.5, 1.5]]
    assert trace.ratios((COUNTED,))[1] == pytest.approx([1.0, 1.1, 0.9, 1.0, 1.0])


def test_what_is_neither_step_nor_move_is_spread_over_the_steps() -> None:
    assert made_up_trace().other_s == pytest.approx(0.0, abs=1e-9) and math.isfinite(made_up_trace().trained_s)
