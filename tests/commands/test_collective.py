"""`--collective`: one method for every all-reduce, of `plan` and of `train`."""

import pytest

from hetero_mtf.planning.layout.records import CollectiveRule
from hetero_mtf.planning.plan.plan import Plan

LOCAL = ["--cluster", "local:cpu:0,cpu:0", "--batch-size", "8"]


def _tested(said):
    """Return the line with the metrics of the test data."""
    return next(line for line in said.out.splitlines() if line.startswith("test"))


@pytest.mark.parametrize("source", ["shares", "profile"])
def test_a_plan_has_the_collective_that_is_named_for_every_all_reduce(cli, model, profile, tmp_path, source):
    options = [*model, *LOCAL, "--shares", "3,1"] if source == "shares" else [profile]
    said = cli("plan", *options, "--collective", "halving_doubling", "-o", tmp_path / "plan.json")
    assert said.code == 0, said.err
    assert Plan.load(tmp_path / "plan.json").collectives == (CollectiveRule("all_reduce", "halving_doubling"),)
    refused = cli("plan", profile, *model, *LOCAL[:2], "--collective", "ring", "--refine")
    assert refused.code == 2 and "no --shares, --collective or what-if changes" in " ".join(refused.err.split())


@pytest.mark.slow
@pytest.mark.parametrize("source", ["plan", "profile"])
def test_a_training_has_the_collective_that_is_named_for_every_all_reduce(cli, subject, plan, profile, tmp_path, source):
    options = ["--plan", plan] if source == "plan" else ["--profile", profile, "--strategy", "filters"]
    said = cli("train", *subject, *options, "--epochs", "1", "--collective", "butterfly", "--save", tmp_path / "s.npz")
    assert said.code == 0, said.err
    assert Plan.load(tmp_path / "s-plan.json").collectives == (CollectiveRule("all_reduce", "butterfly"),)
    assert "\ncollective:" not in (tmp_path / "s-config.yaml").read_text()  # the plan that it names has it
    again = cli("train", "--config", tmp_path / "s-config.yaml", "--save", tmp_path / "again.npz")
    assert again.code == 0 and _tested(again) == _tested(said)
