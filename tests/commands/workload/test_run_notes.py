"""What is stored with a state for later commands: checked, whoever wrote the file."""

import json

import pytest

from hetero_mtf.commands.workload.run_notes import RunNotes, read_notes
from hetero_mtf.errors import CheckpointError

SMOOTHED = {"class_name": "BinaryCrossentropy", "config": {"label_smoothing": 0.25}}


def test_what_is_stored_is_read_again():
    notes = RunNotes(SMOOTHED, ("auc", {"class_name": "AUC", "config": {"name": "a"}}), "mixed_bfloat16", 0.25, {"val_loss": (0.5, 1, 2)})
    assert read_notes(json.loads(json.dumps(notes.document())), "s.npz") == notes
    assert RunNotes().document() == {} and read_notes({}, "s.npz") == RunNotes()
    assert notes.choice("s.npz").loss_origin == "as s.npz was trained with"


@pytest.mark.parametrize(
    "notes, said",
    [
        ({"loss": {"module": "os", "class_name": "system", "config": {}}}, "loss: 'system' is no class of keras.losses"),
        ({"loss": {"class_name": "MeanSquaredError", "config": {"name": {"class_name": "X"}}}}, "options that are no plain values"),
        ({"loss": {"class_name": "MeanSquaredError", "config": {"fn": "mse"}}}, "has no options that are plain values"),
        ({"loss": 3}, "loss: 3 names no class"),
        ({"loss": "x" * 1000}, "loss: "),
        ({"metrics": "auc"}, "metrics is 'auc', not a list"),
        ({"metrics": [{"class_name": "MeanMetricWrapper", "config": {"fn": "x"}}]}, "metrics: MeanMetricWrapper has no options"),
        ({"precision": "half"}, "precision is 'half'"),
        ({"validation_split": 1.5}, "validation_split is 1.5"),
        ({"watched": {"loss": [1.0, -1, 2]}}, "watched is"),
        ({"watched": {"loss": [True, 1, 2]}}, "watched is"),
        ({"watched": [1]}, "watched is"),
    ],
)
def test_what_cannot_be_meant_is_refused(notes, said):
    with pytest.raises(CheckpointError, match="s.npz is not a complete checkpoint") as caught:
        read_notes(notes, "s.npz")
    assert said in str(caught.value) and "; take an earlier one or train again" in str(caught.value)
