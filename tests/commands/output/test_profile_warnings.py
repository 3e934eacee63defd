"""Doubts: told on the error stream where a profile is planned from, and calibrating again from an earlier profile."""

import json

import pytest

from hetero_mtf.commands.output.profile_report import print_profile_warnings
from hetero_mtf.planning.profile.profile import Profile


@pytest.fixture
def changed(profile, tmp_path):
    """Writes the profile with other entries and returns its path."""

    def write(**entries):
        path = tmp_path / "changed.json"
        path.write_text(json.dumps({**json.loads(profile.read_text()), **entries}))
        return path

    return write


@pytest.mark.slow
def test_a_stale_profile_is_planned_from_with_a_warning(cli, changed, tmp_path):
    said = cli("plan", changed(measured_at="2020-02-03T00:00:00+00:00"), "-o", tmp_path / "plan.json")
    assert said.code == 0 and "hetero-mtf: warning: the profile is " in said.err and " days old (2020-02-03); calibrate again" in said.err


def test_a_profile_of_another_tensorflow_is_trained_from_with_a_warning(cli, changed, subject):
    wanted = ["--epochs", "1", "--strategy", "single"]
    said = cli("train", *subject, *wanted, "--profile", changed(versions={"tensorflow": "2.9.1"}))
    assert said.code == 0 and "hetero-mtf: warning: the profile was measured with tensorflow 2.9.1, here is " in said.err


def test_a_fresh_profile_is_told_without_a_word(profile, capsys):
    print_profile_warnings(Profile.load(profile))
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_calibrating_again_keeps_what_the_earlier_profile_holds(cli, model, profile, tmp_path, monkeypatch):
    from hetero_mtf.calibration import calibrate

    monkeypatch.setattr(calibrate, "DEVIATION", 1e9)  # on a busy machine a layer may well take another time than a moment ago
    options = ["--cluster", "local:cpu:0,cpu:0", "--batch-size", "8", "--budget", "60", "--reuse", profile]
    said = cli("calibrate", *model, *options, "-o", tmp_path / "again.json")
    assert said.code == 0, said
    assert set(Profile.load(tmp_path / "again.json").curves) == set(Profile.load(profile).curves)


def test_a_profile_to_reuse_that_is_none_is_refused_before_anything_is_measured(cli, model, tmp_path):
    said = cli("calibrate", *model, "--reuse", tmp_path / "none.json", "-o", tmp_path / "profile.json")
    assert "none.json" in said.sentence and not (tmp_path / "profile.json").exists()
