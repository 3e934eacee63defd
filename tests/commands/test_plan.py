"""`hetero-mtf plan`: from a profile by any strategy, or from typed shares."""

import dataclasses
import datetime

import pytest

from hetero_mtf.commands.options.shared import MANUAL, STRATEGIES
from hetero_mtf.planning import choose as strategies
from hetero_mtf.planning.names import PIPELINE
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.corrections import Corrections
from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.program.optimizer_reading import optimizer_spec

LOCAL = ["--cluster", "local:cpu:0,cpu:0", "--batch-size", "8"]


def test_the_options_name_every_strategy_there_is():
    assert STRATEGIES == ("auto", *strategies.STRATEGIES, PIPELINE) and set(MANUAL) < set(STRATEGIES)


@pytest.mark.parametrize("strategy", ["batch", "hybrid"])
def test_a_profile_is_planned_by_the_strategy_asked_for(cli, profile, tmp_path, strategy):
    said = cli("plan", profile, "--strategy", strategy, "-o", tmp_path / "plan.json")
    assert said.code == 0 and f"Plan by strategy {strategy}" in said.out
    assert Plan.load(tmp_path / "plan.json").strategy == strategy


@pytest.mark.fast("batch", "space")
@pytest.mark.parametrize("strategy", MANUAL)
def test_typed_shares_make_a_plan_of_every_kind_that_takes_them(cli, model, tmp_path, strategy):
    said = cli("plan", *model, *LOCAL, "--shares", "3,1", "--strategy", strategy, "-o", tmp_path / "plan.json")
    assert said.code == 0, said.err
    plan = Plan.load(tmp_path / "plan.json")
    data = plan.stages[0].layouts[0]
    assert plan.strategy == strategy and (data.samples == (6, 2)) == (strategy in ("batch", "hybrid"))
    assert (data.slabs == (6, 2)) == (strategy == "space")


def test_weights_are_mixed_where_the_batch_is_split(cli, model, tmp_path):
    options = [*model, *LOCAL, "--shares", "3,1", "--gradient-sync", "butterfly_mixing", "-o", tmp_path / "plan.json"]
    assert cli("plan", *options, "--strategy", "batch").code == 0
    assert Plan.load(tmp_path / "plan.json").gradient_sync == "butterfly_mixing"
    assert cli("plan", *options, "--strategy", "hybrid").code == 0
    assert Plan.load(tmp_path / "plan.json").gradient_sync == "butterfly_mixing"
    assert "one stage on one axis must then have layers that split the batch" in cli("plan", *options).sentence


@pytest.mark.parametrize("options", [["--strategy", "grid"], ["--strategy", "single"]])
def test_shares_for_a_strategy_that_takes_none_are_wrong_usage(cli, model, options):
    said = cli("plan", *model, *LOCAL, "--shares", "3,1", *options)
    assert said.code == 2 and "--strategy filters, batch, space, hybrid or none, which splits the filters" in " ".join(said.err.split())


def test_a_refined_plan_is_run_and_the_profile_keeps_what_its_steps_gave(cli, model, profile, tmp_path):
    own = tmp_path / "profile.json"
    own.write_text(profile.read_text())
    cluster = ["--cluster", "local:cpu:0,cpu:0"]
    said = cli("plan", own, *model, *cluster, "--refine", "--refine-time", "0", "-o", tmp_path / "plan.json")
    assert said.code == 0, said.err
    assert "in force" in said.out and "Refined in" in said.out
    corrections = Profile.load(own).corrections
    assert corrections.layers and corrections.steps and corrections.corrected_at
    assert Plan.load(tmp_path / "plan.json").predicted is not None
    assert Profile.load(profile).corrections == Corrections()
    assert cli("plan", own, "-o", tmp_path / "again.json").code == 0


@pytest.mark.parametrize("spec", [OptimizerSpec("sgd", momentum=0.5), OptimizerSpec("adam", amsgrad=True), OptimizerSpec("rmsprop")])
def test_steps_are_run_with_the_optimizer_that_the_profile_was_measured_for(cli, model, profile, tmp_path, monkeypatch, spec):
    trained = []

    def refined(prepared, cluster, network, loss, optimizer, limit_s):
        trained.append(optimizer_spec(optimizer))
        return prepared

    monkeypatch.setattr("hetero_mtf.commands.runs.plan_with_model.refined", refined)
    dataclasses.replace(Profile.load(profile), optimizer=spec).save(tmp_path / "profile.json")
    options = [*model, "--cluster", "local:cpu:0,cpu:0", "--refine", "-o", tmp_path / "plan.json"]
    assert cli("plan", tmp_path / "profile.json", *options).code == 0
    assert trained == [spec]


@pytest.mark.parametrize("options", [["--refine"], ["--refine-time", "3"], ["--refine", "--bandwidth", "2"]])
def test_refinement_without_what_it_runs_on_is_wrong_usage(cli, profile, options):
    said = cli("plan", profile, *options)
    assert said.code == 2 and "--refine" in said.err


def test_the_age_of_a_profile_is_said_from_a_day_on(cli, profile, tmp_path):
    now = datetime.datetime.now(datetime.timezone.utc)
    for hours, text in ((3, ""), (80, "3 days ago")):
        path, measured_at = tmp_path / "p.json", (now - datetime.timedelta(hours=hours)).isoformat()
        dataclasses.replace(Profile.load(profile), measured_at=measured_at).save(path)
        planned, explained = cli("plan", path, "-o", tmp_path / "plan.json"), cli("explain", path)
        assert planned.code == explained.code == 0
        assert (f"{path} was measured {text} ({measured_at[:10]})\n" in planned.out) == bool(text)
        assert ("days ago" in planned.out) == bool(text)
        assert f"measured at {measured_at}{', ' * bool(text)}{text}\n" in explained.out
