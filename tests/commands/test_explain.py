"""`hetero-mtf explain` and what-if planning: from files alone, without TensorFlow."""

import dataclasses
import datetime
import json
import re
import subprocess
import sys

import pytest

from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.report.measured import Measured
from hetero_mtf.units import seconds_text
from tests.planning.networks import pair_net, profile_of

BLOCKED = """
import sys
for name in ("tensorflow", "keras", "mesh_tensorflow"):
    sys.modules[name] = None  # importing it fails
from hetero_mtf.commands.main import run
folder = sys.argv[1]
assert run(["plan", f"{folder}/profile.json", "-o", f"{folder}/new.json", "--strategy", "batch"]) == 0
what_if = ["--scale", "worker:1=2", "--add-like", "worker:0", "--bandwidth", "x2", "--memory", "worker:0=1GiB"]
assert run(["plan", f"{folder}/profile.json", "-o", f"{folder}/if.json", *what_if, "--batch-size", "16", "--extrapolate"]) == 0
assert run(["explain", f"{folder}/profile.json"]) == 0
assert run(["explain", f"{folder}/plan.json", *what_if, "--batch-size", "16", "--html", f"{folder}/page.html"]) == 0
"""


@pytest.fixture
def place(tmp_path):
    """A folder with a profile.json and the plan.json made from it."""
    profile = profile_of(pair_net(24, 24, 24), [2e6, 1e6], 1e-6, batch_size=8)
    profile = dataclasses.replace(profile, measured_at=datetime.date.today().isoformat())
    profile.save(tmp_path / "profile.json")
    plan(profile, strategy="filters").save(tmp_path / "plan.json")
    return tmp_path


@pytest.mark.slow
def test_planning_and_explaining_need_no_tensorflow(place):
    done = subprocess.run([sys.executable, "-c", BLOCKED, str(place)], capture_output=True, text=True)
    assert done.returncode == 0 and re.fullmatch(r"hetero-mtf \S+: planning from .*profile.json\n", done.stderr), done.stderr
    assert "What-if, not measured: a batch has 16 samples, with times extrapolated from 8" in done.stdout
    assert Plan.load(place / "if.json").batch_size == 16 and len(Plan.load(place / "if.json").devices) == 3
    assert (place / "page.html").read_text().startswith("<!DOCTYPE html>")


def test_the_profile_beside_the_plan_is_found(cli, place):
    said = cli("explain", place / "plan.json")
    made = Plan.load(place / "plan.json")
    assert said.code == 0 and said.err == ""
    assert f"step {seconds_text(made.predicted.step_s)}, forward " in said.out and "\nEqual split and ideal\n" in said.out
    (place / "profile.json").rename(place / "other.json")
    alone = cli("explain", place / "plan.json")
    assert alone.code == 0 and "Equal split and ideal" not in alone.out and "Bottleneck" in alone.out
    assert cli("explain", place / "plan.json", "--profile", place / "other.json").out == said.out


def test_what_speaks_against_the_profile_is_told(cli, place):
    old = dataclasses.replace(Profile.load(place / "profile.json"), measured_at="2020-01-01")
    old.save(place / "profile.json")
    said = cli("explain", place / "plan.json")
    assert re.search(r"^the profile is \d+ days old \(2020-01-01\); calibrate again$", said.out, re.MULTILINE)


def test_a_profile_of_something_else_beside_the_plan_is_left_aside_with_a_warning(cli, place):
    profile_of(pair_net(24, 24, 24), [2e6, 1e6, 1e6], batch_size=8).save(place / "profile.json")
    said = cli("explain", place / "plan.json")
    assert said.code == 0 and "Equal split and ideal" not in said.out
    assert "profile.json is left aside, " in said.err and "and the plan for devices worker:0, worker:1 at batch size 8" in said.err
    asked = cli("explain", place / "plan.json", "--scale", "worker:1=2")
    assert asked.sentence.endswith("give the profile that the plan was made from")
    assert cli("explain", place / "plan.json", "--profile", place / "profile.json").sentence == asked.sentence


def test_what_if_sets_both_plans_side_by_side(cli, place):
    said = cli("explain", place / "plan.json", "--scale", "worker:1=2", "--add-like", "worker:0", "--bandwidth", "x2")
    assert said.code == 0, said.err
    assert re.search(r"^What if: .*device worker:1 is 2 times as fast as measured", said.out, re.MULTILINE)
    assert re.search(r"a step would take 0\.\d\d times as long: .* -> ", said.out)
    assert re.search(r"^strategy +filters +filters$", said.out, re.MULTILINE)
    assert Plan.load(place / "plan.json") == plan(Profile.load(place / "profile.json"), strategy="filters")


@pytest.mark.slow
def test_what_if_is_planned_by_auto_where_auto_made_the_plan(cli, place):
    plan(profile_of(pair_net(24, 24, 24), [2e6, 1e6], 1e3, batch_size=8)).save(place / "plan.json")
    said = cli("explain", place / "plan.json", "--bandwidth", "x2")
    assert re.search(r"^strategy +single +(?!single)\w+$", said.out, re.MULTILINE), said


def test_what_if_without_a_profile_is_refused(cli, place):
    (place / "profile.json").unlink()
    said = cli("explain", place / "plan.json", "--batch-size", "16")
    assert said.sentence == f"what if needs the profile of the plan and there is no {place / 'profile.json'}; give it with --profile"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--scale", "2"], "'2' names no device and factor; write for instance gpu:1=2 for twice as fast"),
        (["--scale", "worker:0=-1"], "'-1' is no factor; write a number from 0.000001 to 1000000, such as x2 or 0.5"),
        (["--scale", "gpu:5=2"], "the profile has no device 'gpu:5', it has worker:0, worker:1; use one of these"),
        (["--add-like", "gpu:5"], "the profile has no device 'gpu:5', it has worker:0, worker:1; use one of these"),
        (["--bandwidth", "fast"], "'fast' is no factor; write a number from 0.000001 to 1000000, such as x2 or 0.5"),
        (
            ["--memory", "worker:0=8GB", "--memory", "worker:0=4GiB"],
            "the memory of device worker:0 is given as 7.5 GiB and as 4.0 GiB; give it once",
        ),
        (["--scale", "worker:0=2", "--scale", "worker:0=x3"], "the factor of device worker:0 is given as 2 and as 3; give it once"),
        (["--memory", "worker:0"], "'worker:0' names no device and memory; write for instance gpu:0=8GB or gpu:0=7.5GiB"),
    ],
)
def test_a_what_if_that_cannot_be_is_one_sentence_for_both_commands(cli, place, options, message):
    assert cli("explain", place / "plan.json", *options).sentence == message
    assert cli("plan", place / "profile.json", "-o", place / "out.json", *options).sentence == message
    assert not (place / "out.json").exists()


def test_another_batch_size_is_planned_only_where_extrapolating_is_asked_for(cli, place):
    options = ["plan", place / "profile.json", "-o", place / "out.json", "--batch-size", "16"]
    remedy = "calibrate again with --batch-size 16, or have times extrapolated by hetero-mtf plan --extrapolate"
    assert cli(*options).sentence.endswith(remedy)
    assert cli(*options, "--bandwidth", "x2").sentence.endswith(remedy)
    assert cli(*options, "--extrapolate").code == 0 and Plan.load(place / "out.json").batch_size == 16


def test_what_if_does_not_go_with_typed_shares(cli, place):
    said = cli("plan", "--shares", "1,1", "--bandwidth", "x2", "-o", place / "out.json")
    assert said.code == 2 and "what if needs a profile" in said.err


def test_measured_times_stand_beside_the_prediction(cli, place):
    made = Plan.load(place / "plan.json")
    times = Measured(made.digest, made.strategy, 8, made.devices, 40, 2 * made.predicted.step_s)
    times.save(place / "measured.json")
    said = cli("explain", place / "plan.json")
    assert "2.00 times what was predicted" in said.out
    dataclasses.replace(times, strategy="batch").save(place / "measured.json")
    aside = cli("explain", place / "plan.json")
    assert aside.code == 0 and "measured.json is left aside, " in aside.err and "times what was predicted" not in aside.out
    refused = cli("explain", place / "plan.json", "--measured", place / "measured.json")
    assert refused.sentence.endswith("give the plan of that run or train by this one")


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_said(cli, place):
    said = cli("explain", place / "plan.json", "--html", place / "none" / "page.html")
    assert said.out == "" and said.sentence.startswith("cannot write ")


def test_the_page_is_written_and_named(cli, place):
    said = cli("explain", place / "plan.json", "--html", place / "page.html")
    assert said.out.endswith(f"written to {place / 'page.html'}\n") and "</html>" in (place / "page.html").read_text()


@pytest.mark.slow
def test_training_writes_measured_times_that_explain_finds(cli, subject, profile, tmp_path):
    assert cli("plan", profile, "--strategy", "filters", "-o", tmp_path / "a-plan.json").code == 0
    options = ["--plan", tmp_path / "a-plan.json", "--epochs", "2", "--optimizer", "adam"]
    trained = cli("train", *subject, *options, "--save", tmp_path / "a.npz", "--compare")
    assert trained.code == 0 and f"saved {tmp_path / 'a-measured.json'}" in trained.out, trained
    found = Measured.load(tmp_path / "a-measured.json")
    found.check(Plan.load(tmp_path / "a-plan.json"))
    assert found.steps == 2 * (6 - 1) - 2 and len(found.alone_s) == 2 and found.equal_s is not None and found.parts
    said = cli("explain", tmp_path / "a-plan.json")
    assert "times what was predicted" in said.out and "Measured beside predicted" in said.out
    other = cli("train", *subject, *options, "--measured", tmp_path / "own.json")
    assert other.code == 0 and Measured.load(tmp_path / "own.json").alone_s == ()


@pytest.mark.slow
def test_training_that_saves_nothing_writes_no_times(cli, subject, plan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli("train", *subject, "--plan", plan, "--epochs", "1").code == 0
    assert list(tmp_path.iterdir()) == []


def test_a_typed_pipeline_is_explained_and_set_beside_what_it_would_be(cli, place):
    profile = Profile.load(place / "profile.json")
    typed = Plan.pipeline(profile.graph, ["first", "second"], [[0], [1]], [[1], [1]], profile.cluster, 8, microbatches=4)
    typed.save(place / "plan.json")
    said = cli("explain", place / "plan.json", "--html", place / "page.html")
    assert said.code == 0 and "1f1b, 4 microbatches of 2 samples" in said.out and "Bottleneck" in said.out
    beside = cli("explain", place / "plan.json", "--scale", "worker:1=2")
    assert beside.code == 0 and "\nWhat if: device worker:1 is 2 times as fast as measured\n====" in beside.out
    dataclasses.replace(typed, schedule="synchronous").save(place / "plan.json")
    wrong = cli("explain", place / "plan.json", "--scale", "worker:1=2")
    assert "stages that work one after another have no prediction to set another beside; give the plan another schedule" in wrong.sentence


def test_a_profile_is_explained_too(cli, place):
    said = cli("explain", place / "profile.json", "--html", place / "page.html")
    assert said.code == 0 and said.err == "" and said.out.startswith("Verdict\n=======\nworker:0 is fastest")
    assert re.search(r"^worker:1 +[\d.]+ +0\.50 ", said.out, re.MULTILINE), said.out
    assert "What a plan would gain" in (place / "page.html").read_text()
    twice = cli("explain", place / "profile.json", "--scale", "worker:1=2")
    assert re.search(r"^worker:1 +[\d.]+ +1\.00 ", twice.out, re.MULTILINE)
    assert "what-if, not measured: device worker:1 is 2 times as fast as measured\n" in twice.out


def test_what_a_profile_holds_is_json_for_scripts(cli, place):
    document = json.loads(cli("explain", place / "profile.json", "--json").out)
    assert [round(device["relative_speed"], 2) for device in document["devices"]] == [1.0, 0.5]
    refused = cli("explain", place / "plan.json", "--json")
    assert refused.code == 2 and "--json goes with a profile" in refused.err


def test_options_of_a_plan_do_not_go_with_a_profile(cli, place):
    refused = cli("explain", place / "profile.json", "--profile", place / "profile.json")
    assert refused.code == 2 and "--profile and --measured go with a plan" in refused.err


def test_calibrate_shows_what_explain_shows_of_its_profile(cli, place, model, tmp_path, monkeypatch):
    measured = Profile.load(place / "profile.json")
    monkeypatch.setattr("hetero_mtf.commands.runs.measured_profile.measure", lambda *given: measured)
    path = tmp_path / "measured-profile.json"
    options = ["calibrate", *model, "--cluster", "local:cpu:0", "-o", path]
    said = cli(*options)
    assert said.code == 0 and said.out == f"{cli('explain', path).out}\nwritten to {path}\n" and Profile.load(path) == measured
    assert cli(*options, "--json").out == cli("explain", path, "--json").out
