"""The report of a run, and what a resumed run keeps."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from tools.bench.prediction import report
from tools.results.output import Cases, Output


def _found(network: str, cluster: str, measured_s: float) -> dict[str, Any]:
    parts = [{"device": "worker:0", "compute_s": 0.3, "communication_s": 0.05, "idle_s": 0.0}]
    times = {"predicted_s": 0.4, "measured_s": measured_s, "predicted_parts": parts, "measured_parts": parts}
    single = {**times, "plan": ["single"], "predicted_s": 0.5, "measured_s": 0.5}
    head = {"network": network, "cluster": cluster, "batch": 32, "automatic": "filters"}
    return {**head, "plans": [{**times, "plan": ["auto", "filters"]}, single]}


def test_the_report_has_a_row_a_plan_the_regrets_and_a_summary() -> None:
    text = report([_found("vgg11", "1.0,0.5", 0.5), _found("volume", "1.0,1.0", 0.52)])
    assert "| VGG-11, batch 32 | 1.0,0.5 | auto, filters | 400 | 500 | -20.0% | ± 25% ✓ | 300+50+0 | 300+50+0 |" in text
    assert "| 3-D ResNet-10, batch 32 | 1.0,1.0 | filters | 4.0% | ≤ 5% ✓ |" in text
    assert "4 plans: median error 10.0% (at most 10% wanted), worst -23.1%." in text
    assert "within 5% of the best measured one in 2 of 2 cases, at worst 4.0%." in text


def test_a_plan_ranked_first_that_is_not_the_best_is_counted_and_has_a_cross() -> None:
    text = report([_found("vgg11", "1.0,0.5", 0.5), _found("volume", "1.0,1.0", 0.6)])
    assert "in 1 of 2 cases, at worst 20.0%." in text and "| 20.0% | ≤ 5% ✗ |" in text


def test_a_resumed_run_keeps_the_cases_of_the_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "prediction.json"
    assert Output(None, None, True).earlier_cases() == Output(None, str(path), True).earlier_cases() == []
    done = [_found("vgg11", "1.0,0.5", 0.5), _found("volume", "1.0,1.0", 0.5)]
    path.write_text(json.dumps({"command": "python -m tools.bench.prediction", "cases": done}))
    assert Cases(Output(None, str(path), True)).done == done
    assert Cases(Output(None, str(path))).done == []
