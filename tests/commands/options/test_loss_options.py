"""The options that name a loss and metrics."""

import click
import pytest

from hetero_mtf.commands.options.loss_options import LossName, MetricNames, ObjectiveChoice


def test_a_loss_is_a_name_with_or_without_its_output():
    assert LossName().convert("mse", None, None) == ("", "mse")
    assert LossName().convert("head=CategoricalHinge", None, None) == ("head", "CategoricalHinge")
    assert LossName().convert("nets>Mine", None, None) == ("", "nets>Mine")
    for text in ("", "a b", "=mse", "head=", "lambda: 0"):
        with pytest.raises(click.BadParameter, match="is no name of a loss; write for instance mse"):
            LossName().convert(text, None, None)


def test_metrics_are_names_with_commas_between():
    assert MetricNames().convert("accuracy, head=auc", None, None) == (("", "accuracy"), ("head", "auc"))
    for text in ("", "accuracy,", "a b", "auc,auc"):
        with pytest.raises(click.BadParameter, match="is no list of names that differ; write for instance accuracy,auc"):
            MetricNames().convert(text, None, None)


def test_a_choice_is_what_was_given_and_the_rest_is_that_of_another():
    given = ObjectiveChoice.given([("", "hinge")], [])
    stored = ObjectiveChoice("mse", ("auc",), "as s.npz was trained with", "as s.npz was trained with")
    both = given.over(stored)
    assert (both.loss, both.metrics, both.loss_origin) == ("hinge", ("auc",), "set by --loss")
    assert ObjectiveChoice().over(stored).loss_origin == "as s.npz was trained with"


@pytest.mark.parametrize(
    "losses, metrics, said",
    [
        ([("", "mse"), ("", "mae")], [], "--loss is given as mse, mae; give one"),
        ([("a", "mse"), ("a", "mae")], [], "--loss is given as a=mse, a=mae; give one"),
        ([("", "mse"), ("a", "mae")], [], "--loss is given as mse, a=mae; give one"),
        ([], [(("", "auc"),), (("", "auc"),)], "--metrics names a metric twice"),
    ],
)
def test_an_output_has_one_loss_and_a_metric_one_name(losses, metrics, said):
    with pytest.raises(click.UsageError, match=said):
        ObjectiveChoice.given(losses, metrics)
