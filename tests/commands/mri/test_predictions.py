"""The table of predictions."""

import pathlib

import numpy as np
import pytest

from hetero_mtf.commands.mri.predictions import Predictions
from hetero_mtf.data.volumes.cohort.participants import Participants, Scan


@pytest.mark.parametrize("column", ["session", "session_id"])
def test_the_column_of_sessions_keeps_the_name_that_it_has_in_the_table(column, tmp_path):
    scans = (Scan("sub-01", "ses-1", "AD", pathlib.Path("a.nii")), Scan("sub-02", None, "NC", pathlib.Path("b.nii")))
    people = Participants(pathlib.Path("participants.tsv"), scans, "diagnosis", ("AD", "NC"), column)
    Predictions(people, np.array([[0.75, 0.25], [0.5, 0.5]]), ("test", "test")).save(tmp_path / "p.tsv")
    heading, first, second = (tmp_path / "p.tsv").read_text().splitlines()
    assert heading.split("\t")[:2] == ["participant_id", column]
    assert first.split("\t")[:2] == ["sub-01", "ses-1"] and second.split("\t")[:2] == ["sub-02", "n/a"]
