"""Figures of unseen.py with known answers."""

from __future__ import annotations

from typing import Any


def unseen_case(after_s: float | None = 0.25, cluster: str = "1.0,0.5") -> dict[str, Any]:
    """Return the figures of a case with devices of 0.3 s and 0.6 s alone; without refinement where `after_s` is None."""
    seconds = {"alone 0": 0.3, "alone 1": 0.6, "equal": 0.4, "before": 0.28} | ({} if after_s is None else {"after": after_s})
    runs = [{"strategy": "batch", "step_s": [0.2, 0.25, 0.3], "first_predicted_s": 0.2, "predicted_s": 0.3}]
    return {
        "network": "2-D 24x24x3, 9 layers, no norm, 0.4 M weights",
        "seed": "0000abcd",
        "batch": 32,
        "cluster": cluster,
        "strategies": {"before": "layers", "after": "filters"},
        "predicted_s": {"before": 0.21, "after": 0.24},
        "rounds_s": {name: [value, 0.98 * value, 1.02 * value] for name, value in seconds.items()},
        "ceilings": {"single": 0.67, "batch": 0.9, "filters": 0.8},
        "together_ceilings": {"single": 0.67, "batch": 0.85, "filters": 0.75},
        "calibration_s": 61.0,
        "refinement_s": None if after_s is None else 31.0,
        "runs": [] if after_s is None else runs,
    }


def failed_case() -> dict[str, Any]:
    """Return a case that was not measured."""
    head = {key: unseen_case()[key] for key in ("network", "seed", "batch", "cluster")}
    return {**head, "failure": "WorkerError: worker:1 died"}
