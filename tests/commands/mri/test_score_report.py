"""Scores of predictions by session and by site, as text, JSON, picture and page."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest

from hetero_mtf.commands.mri.predictions import Predictions
from hetero_mtf.commands.mri.score_report import score_report
from hetero_mtf.data.volumes.cohort.participants import Participants, Scan
from hetero_mtf.errors import HeteroError
from hetero_mtf.report.scores import scores

CLASSES = ("AD", "NC")


def predictions(count=12, sessions=True, column="site", centre=lambda n: "AB"[n % 3 == 0]):
    scans = [
        Scan(f"sub-{n // 2}", f"ses-{n % 2}" if sessions else None, CLASSES[n // 2 % 2], pathlib.Path("a.nii"), line=n, centre=centre(n))
        for n in range(count)
    ]
    rows = np.random.default_rng(0).dirichlet([1, 1], count)
    people = Participants(pathlib.Path("participants.tsv"), tuple(scans), "diagnosis", CLASSES, "session", column)
    return Predictions(people, rows, ("test",) * count)


def test_scores_are_those_of_all_of_each_session_and_of_each_site():
    all_of_them = predictions()
    report = score_report(all_of_them, "a title")
    assert report.scores == scores(all_of_them.probabilities, all_of_them.participants.y, CLASSES)
    assert [(by.column, [group.name for group in by.groups]) for by in report.groups] == [
        ("session", ["ses-0", "ses-1"]),
        ("site", ["A", "B"]),
    ]
    second = report.groups[0].groups[1]
    assert second.scores == scores(all_of_them.probabilities[1::2], all_of_them.participants.y[1::2], CLASSES) and second.participants == 6
    text = report.text()
    assert (
        text.index("Scores of 12 predictions") < text.index("predicted AD") < text.index("Scores by session") < text.index("Scores by site")
    )
    assert "calibration (AD): Brier score" in text


def test_all_spellings_of_a_session_are_one_group_and_all_of_a_participant_one():
    plain, sessions = predictions(), ("0", "ses-0", "00", "1.0", "1", "ses-1")
    scans = tuple(
        dataclasses.replace(scan, session=sessions[n % 3 + 3 * (n % 2)], participant=f"{n // 2}.0" if n % 2 else f"SUB-{n // 2}")
        for n, scan in enumerate(plain.participants.scans)
    )
    respelt = dataclasses.replace(plain, participants=dataclasses.replace(plain.participants, scans=scans))
    by, as_written = (score_report(each, "").groups for each in (plain, respelt))
    for one, other in zip(by, as_written):
        assert [(group.scores, group.participants) for group in one.groups] == [(g.scores, g.participants) for g in other.groups]
    exact = dataclasses.replace(respelt, participants=dataclasses.replace(respelt.participants, comparison="exact"))
    assert len(score_report(exact, "").groups[0].groups) == 6


def test_a_table_without_sessions_and_sites_has_no_scores_by_them():
    assert score_report(predictions(sessions=False, column=None), "").groups == ()
    (by,) = score_report(predictions(sessions=False, centre=lambda n: None), "").groups
    assert by.text() == "site: all 12 scans are of n/a, and its scores are those above"


def test_some_scans_are_scored_alone():
    all_of_them = predictions()
    report = score_report(all_of_them, "", [0, 2, 3], "NC")
    assert report.scores == scores(all_of_them.probabilities[[0, 2, 3]], all_of_them.participants.y[[0, 2, 3]], CLASSES, "NC")
    assert sum(group.scores.samples for group in report.groups[1].groups) == 3


def test_a_document_is_json_with_the_groups_and_the_calibration():
    document = json.loads(json.dumps(score_report(predictions(1), "").document(), allow_nan=False))
    assert document["groups"]["site"]["B"]["samples"] == 1 and document["scores"]["ROC AUC (AD)"]["value"] is None
    assert document["calibration"]["AD"]["brier"] >= 0 and len(document["calibration"]["AD"]["bins"]) == 10


@pytest.mark.slow
def test_a_picture_and_a_page_are_written_where_they_are_wanted(tmp_path, capsys):
    report = score_report(predictions(), "a <title>")
    report.draw(None, None, "evaluate")
    assert capsys.readouterr().out == ""
    report.draw(tmp_path / "a.png", tmp_path / "a.html", "evaluate")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    text = (tmp_path / "a.html").read_text()
    assert "a &lt;title&gt;" in text and "data:image/png;base64," in text and "Scores by site" in text
    assert f"saved {tmp_path / 'a.png'}" in capsys.readouterr().out
    with pytest.raises(HeteroError, match="choose another place"):
        report.draw(tmp_path / "none" / "a.png", None, "evaluate")
