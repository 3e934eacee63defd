"""Losses and metrics by all of Keras's identifiers."""

import inspect

import keras
import pytest

from hetero_mtf.commands.workload.identifiers import loss_kind, metric_kind
from hetero_mtf.errors import UnsupportedError

LOSSES = sorted(name for name, kind in vars(keras.losses).items() if inspect.isclass(kind) and kind is not keras.losses.Loss)
METRICS = sorted(
    name
    for name, kind in vars(keras.metrics).items()
    if inspect.isclass(kind) and issubclass(kind, keras.metrics.Metric) and name not in ("Metric", "MeanMetricWrapper")
)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_of_keras_has_its_name_in_every_spelling(name):
    assert loss_kind(name) is getattr(keras.losses, name) is loss_kind(name.lower())
    assert loss_kind(getattr(keras.losses, name)().fn.__name__) is getattr(keras.losses, name)


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_of_keras_has_its_name(name):
    assert metric_kind(name) is getattr(keras.metrics, name) is metric_kind(name.lower())


@pytest.mark.parametrize("alias, name", [("mse", "MeanSquaredError"), ("MAE", "MeanAbsoluteError"), ("kld", "KLDivergence")])
def test_aliases_are_keras_s_own(alias, name):
    assert loss_kind(alias) is getattr(keras.losses, name)


@pytest.mark.parametrize("name", ["binary_focal_crossentropy", "pearson_correlation"])
def test_functions_are_metrics_too(name):
    assert callable(metric_kind(name))


def test_an_unknown_name_is_refused_with_those_that_it_may_have_been_meant_for():
    with pytest.raises(UnsupportedError, match="no loss 'categorcal_crossentropy' in Keras; .*--loss.* categorical_crossentropy"):
        loss_kind("categorcal_crossentropy")
    with pytest.raises(UnsupportedError, match="no metric 'recal' in Keras; .*--metrics.* recall"):
        metric_kind("recal")
    for name in ("get", "serialize", "Loss", "qqqqqqqqqq", "__class__"):
        with pytest.raises(UnsupportedError, match="write one of its names|for --loss there are"):
            loss_kind(name)
