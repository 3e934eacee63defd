"""What is logged in training, before anything is trained."""

import keras
import numpy as np
import pytest

from hetero_mtf.commands.workload.logged_metrics import check_loss, check_monitored, logged_names
from hetero_mtf.data import Dataset
from hetero_mtf.errors import UnsupportedError
from hetero_mtf.keras_reading.layer_graph import layer_graph

LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@pytest.fixture(scope="module")
def subject():
    inputs = keras.Input((4,))
    labels, x = np.arange(6) % 3, np.zeros((6, 4), np.float32)
    return Dataset("d", x, labels, x, labels, 3), layer_graph(keras.Model(inputs, keras.layers.Dense(3)(inputs)))


def test_names_are_those_of_keras_s_logs(subject):
    metrics = ["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(name="top")]
    assert logged_names(*subject, LOSS, metrics) == ("loss", "accuracy", "top")
    assert logged_names(*subject, LOSS, []) == ("loss",)


def test_a_metric_or_loss_of_other_shapes_is_refused(subject):
    with pytest.raises(UnsupportedError, match=r"the metric auc cannot .* shape \(\) and outputs of shape \(3,\) .*; name another"):
        logged_names(*subject, LOSS, ["accuracy", keras.metrics.AUC(name="auc")])
    with pytest.raises(UnsupportedError, match="the loss hinge cannot be computed of targets .*; name another with --loss"):
        check_loss(*subject, keras.losses.Hinge())
    check_loss(*subject, LOSS)


def test_what_is_watched_must_be_logged_and_have_a_direction(subject):
    metrics = ["accuracy", keras.metrics.MeanMetricWrapper(lambda y, p: y, name="odd")]
    names = ("loss", "accuracy", "odd", "val_loss", "val_accuracy", "val_odd")
    for name in ("loss", "val_loss", "accuracy", "val_accuracy"):
        check_monitored(name, "--best", names, *subject, LOSS, metrics)
    with pytest.raises(UnsupportedError, match="--best is val_los, which is not logged; did you mean val_loss.* There are loss, accuracy"):
        check_monitored("val_los", "--best", names, *subject, LOSS, metrics)
    with pytest.raises(UnsupportedError, match="val_loss, which is not logged; .*there are loss; .*--validation-split"):
        check_monitored("val_loss", "--early-stopping", ("loss",), *subject, LOSS, [])
    with pytest.raises(UnsupportedError, match="Keras does not say whether more or less is better"):
        check_monitored("val_odd", "--best", names, *subject, LOSS, metrics)
