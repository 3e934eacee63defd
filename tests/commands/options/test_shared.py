"""Options that several commands share."""

import math

import click
import pytest

from hetero_mtf.commands.options.shared import Argument, Budget, FiniteRange, OptimizerChoice, Shares, Three
from hetero_mtf.commands.workload.chosen_optimizer import optimizer_of
from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec
from hetero_mtf.program.optimizer_reading import optimizer_spec
from hetero_mtf.runtime.cluster import Cluster


def test_an_argument_of_a_model_is_a_python_literal():
    values = {"a=1": 1, "a=True": True, "a=[8, 8]": [8, 8], "a='x=y'": "x=y"}
    assert {text: Argument().convert(text, None, None)[1] for text in values} == values


@pytest.mark.parametrize(
    "text, message",
    [
        ("classes", "'classes' is not of the form name=value"),
        ("1a=3", "'1a=3' is not of the form name=value"),
        ("kind=small", "'small' is no Python literal; write for instance classes=10, batch_norm=True"),
    ],
)
def test_an_argument_that_cannot_be_read_is_refused(text, message):
    with pytest.raises(click.BadParameter, match=message):
        Argument().convert(text, None, None)


def test_shares_are_numbers_with_commas_between():
    assert Shares().convert("70,25,5", None, None) == (70.0, 25.0, 5.0)
    with pytest.raises(click.BadParameter, match="'70;25' is not a list of numbers such as 70,25,5"):
        Shares().convert("70;25", None, None)


def test_three_numbers_are_three_or_one_for_all():
    assert Three(int).convert("48,56,40", None, None) == (48, 56, 40) and Three(float).convert("1.5", None, None) == (1.5, 1.5, 1.5)
    for kind, text, wanted in ((int, "1.5", "whole numbers, such as 64"), (float, "1,2", "numbers, such as 2 or"), (float, "", "numbers")):
        with pytest.raises(click.BadParameter, match=f"is neither one nor three {wanted}"):
            Three(kind).convert(text, None, None)


def test_an_optimizer_starts_from_keras_s_learning_rate_and_takes_a_given_one():
    assert float(optimizer_of(OptimizerChoice("adam")).learning_rate) == pytest.approx(0.001)
    falling = OptimizerChoice("adam", 0.1, decay="cosine")
    rate = optimizer_of(falling, 100).learning_rate
    assert float(rate) == pytest.approx(0.1) and float(optimizer_of(falling, None).learning_rate) == pytest.approx(0.1)
    sgd = optimizer_of(OptimizerChoice("sgd", 0.5, 0.9))
    assert (type(sgd).__name__, float(sgd.learning_rate), sgd.momentum) == ("SGD", 0.5, 0.9)
    assert type(optimizer_of(OptimizerChoice("adamw"))).__name__ == "AdamW"


def test_momentum_goes_with_sgd_only():
    with pytest.raises(click.UsageError, match="--momentum goes with --optimizer sgd, not with adam"):
        OptimizerChoice("adam", None, 0.9)


def test_the_record_of_a_choice_is_that_of_its_optimizer():
    assert optimizer_spec(optimizer_of(OptimizerChoice("sgd", 0.5, 0.8))) == OptimizerSpec("sgd", momentum=0.8)
    configuration = {"class_name": "RMSprop", "config": {"learning_rate": 0.1, "centered": True}}
    assert optimizer_spec(optimizer_of(OptimizerChoice("rmsprop", configuration=configuration))) == OptimizerSpec("rmsprop", centered=True)


@pytest.mark.parametrize("text", ["nan", "inf"])
def test_a_number_that_is_not_finite_is_wrong_usage(cli, subject, text):
    with pytest.raises(click.BadParameter, match=f"{text} is not a finite number|is not in the range"):
        FiniteRange(0, min_open=True).convert(text, None, None)
    for option in ("--learning-rate", "--momentum"):
        assert cli("train", *subject, option, text).code == 2


def test_a_budget_is_above_zero_and_may_be_infinite(cli, subject):
    assert [Budget().convert(text, None, None) for text in ("7.5", "inf")] == [7.5, math.inf]
    for text in ("0", "-1", "-inf", "nan", "none"):
        assert cli("train", *subject, "--budget", text).code == 2


@pytest.mark.parametrize(
    ("options", "passed"),
    [
        ([], {}),
        (["--worker-timeout", "7.5", "--wait", "0"], {"worker_timeout_s": 7.5, "wait_s": 0.0}),
        (["--spare", "2"], {"spare": 2}),
    ],
)
def test_the_limits_of_workers_that_do_not_answer_reach_the_cluster(cli, monkeypatch, options, passed):
    opened = []
    local = Cluster.parse("local:cpu:0")
    monkeypatch.setattr(Cluster, "parse", lambda text, **limits: opened.append((text, limits)) or local)
    assert cli("devices", *options).code == 0
    assert opened == [("local", passed)]


@pytest.mark.parametrize("limit", ["0", "-1", "nan", "inf"])
def test_a_limit_that_is_no_time_is_refused(cli, limit):
    assert cli("devices", "--worker-timeout", limit).code == 2
