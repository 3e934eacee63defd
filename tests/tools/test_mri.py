"""The scores of the MRI demonstration become rows of results."""

from __future__ import annotations

from hetero_mtf.report.scores import scores
from tools.mri import SHUFFLED, SPLIT, score_rows


def test_networks_come_first_with_their_seconds_and_linear_models_have_none() -> None:
    document = scores([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]], [0, 1, 0], ["NC", "AD"]).document()
    runs = [{"strategy": name, "seed": seed, "seconds": 12.0, **document} for name, seed in ((SPLIT, 1), (SHUFFLED, 0))]
    linear = [{"model": "ridge", "labels": labels, "seed": 0, **document} for labels in ("true", "permuted")]
    rows = score_rows(runs, linear)
    names = [(row.texts["model"], row.numbers["seed"], row.numbers.get("training_s")) for row in rows]
    assert names[:2] == [("split over both devices", 1, 12.0), ("split, diagnoses shuffled", 0, 12.0)]
    assert names[2:] == [("ridge", 0, None), ("ridge, diagnoses shuffled", 0, None)]
    assert rows[0].texts["accuracy"].startswith("0.667 (")
