"""The summary of a training is read from its files."""

from __future__ import annotations

import json
import pathlib

from hetero_mtf.report.measured import Measured
from tools.results.training_summary import speed_up_text, summary_text, training_summary


def _trained(folder: pathlib.Path, alone_s: tuple[float, ...] = (0.03, 0.06)) -> None:
    (folder / "logs").mkdir()
    lines = [{"epoch": e, "seconds": s, "samples_per_s": 100 / s} for e, s in enumerate((4.0, 2.0, 2.5))]
    (folder / "logs" / "epochs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    Measured("0f", "batch", 8, ("cpu:0", "gpu:0"), 5, 0.02, alone_s=alone_s).save(folder / "state-measured.json")


def test_epochs_but_the_first_count_and_the_fastest_device_is_the_one_compared_with(tmp_path: pathlib.Path) -> None:
    _trained(tmp_path)
    text = summary_text(training_summary(tmp_path / "state.npz", tmp_path / "logs", 0.75, [("linear model", "0.500")]))
    assert "throughput     45 samples/s" in text and "time an epoch  2.25 s" in text
    assert "test accuracy  0.750" in text and "linear model   0.500" in text
    assert "speed-up       1.50 times as fast as the fastest device alone (cpu:0): 20.0 ms a step by strategy batch, 30.0 ms alone" in text


def test_a_speed_up_that_was_not_measured_is_not_made_up(tmp_path: pathlib.Path) -> None:
    _trained(tmp_path, ())
    summary = training_summary(tmp_path / "state.npz", tmp_path / "logs", 0.5)
    assert speed_up_text(summary).startswith("not measured")
    (tmp_path / "state-measured.json").unlink()
    assert training_summary(tmp_path / "state.npz", tmp_path / "logs", 0.5).alone_s == ()
