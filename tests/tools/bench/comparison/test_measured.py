"""How benches show scores."""

from __future__ import annotations

import json

from hetero_mtf.report.scores import scores
from tools.bench.comparison.measured import scored


def test_scores_are_shown_with_their_intervals_from_a_file_too() -> None:
    found = scores([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]], [0, 1, 0], ["NC", "AD"])
    wanted = [found[name].text() for name in ("ROC AUC (AD)", "accuracy", "sensitivity (AD)", "specificity (AD)")]
    assert scored(found.document()) == scored(json.loads(json.dumps(found.document())))
    assert list(scored(found.document()).values()) == wanted


def test_a_score_that_is_not_defined_is_shown_as_such() -> None:
    area, accuracy, sensitivity, _ = scored(scores([[0.9, 0.1], [0.6, 0.4]], [0, 0], ["NC", "AD"]).document()).values()
    assert area == sensitivity == "not defined" and accuracy.startswith("1.000 (")
