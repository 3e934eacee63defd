"""What --measure goes with, and what it does not."""

import pytest

from hetero_mtf.commands.options.measure_choice import default_measure
from hetero_mtf.commands.options.volume_options import VolumeOptions

UNSAID = {
    **dict.fromkeys(("plan", "profile", "collective", "measured", "budget", "refine_time")),
    **{"allow_stale": False, "compare": False, "strategy": "auto", "refine": True},
}


@pytest.fixture
def place(folder, tmp_path, monkeypatch):
    """The working directory, with files that no refused command reads."""
    for name in ("plan.json", "profile.json", "plans.json"):
        (tmp_path / name).write_text("not read")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "options, words",
    [
        (["--measure", "step"], "--measure is 'step', which is no file; write first, steps, never, or the plans of a training"),
        (["--measure", "steps", "--plan", "plan.json"], "--plan would have no effect: with --measure steps plans are tried"),
        (["--measure", "steps", "--profile", "profile.json"], "--profile would have no effect"),
        (["--measure", "plans.json", "--plan", "plan.json"], "--plan would have no effect: with --measure plans.json the plans"),
        (["--measure", "steps", "--strategy", "filters"], "--strategy would have no effect"),
        (["--measure", "steps", "--collective", "ring", "--allow-stale"], "--collective and --allow-stale would have no effect"),
        (["--measure", "steps", "--budget", "3"], "--budget would have no effect: with --measure steps nothing is measured"),
        (["--measure", "never", "--refine"], "--refine would have no effect"),
        (["--measure", "never", "--profile", "profile.json", "--refine-time", "3"], "--refine-time would have no effect"),
        (["--measure", "plans.json", "--rebalance"], "--rebalance does not go with --measure plans.json"),
    ],
)
def test_what_does_not_go_together_is_refused(cli, subject, place, options, words):
    said = cli("train", *subject, *options)
    assert said.code == 2 and said.out == "", said
    assert words in " ".join(said.err.split()), said
    assert sorted(path.name for path in place.iterdir()) == ["plan.json", "plans.json", "profile.json"]


def test_all_folds_are_trained_by_one_plan(cli, place):
    volumes = ["--data", "nifti:participants.tsv", "--folds", "3", "--fold", "all", "--label", "group"]
    for measure in ("steps", "never", "plans.json"):
        said = cli("train", "--model", "net.py:net", *volumes, "--measure", measure)
        assert said.code == 2 and "all folds are trained by one plan" in " ".join(said.err.split()), said


def test_plans_are_not_replaced_that_are_repeated(cli, subject, place):
    said = cli("train", *subject, "--measure", "plans.json", "--save", "plans.json")
    assert said.code == 2 and "--save would replace --measure" in said.err


@pytest.mark.parametrize(
    "said, expected",
    [
        ({}, "steps"),
        ({"profile": "profile.json"}, "first"),
        ({"strategy": "filters"}, "first"),
        ({"compare": True}, "first"),
        ({"refine": False}, "first"),
        ({"budget": 4.0}, "first"),
    ],
)
def test_plans_are_tried_as_steps_unless_there_has_to_be_one_before(said, expected):
    assert default_measure({**UNSAID, **said}, VolumeOptions()) == expected
    assert default_measure(UNSAID, VolumeOptions(folds=3, fold="all")) == "first"
