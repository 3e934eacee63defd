"""Batches are checked against the network and its loss before they reach a device."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from hetero_mtf.data.checked_batch import Batch, check_batch
from hetero_mtf.errors import DataError
from hetero_mtf.graph.records import Layer, LayerGraph
from hetero_mtf.program.batch_arrays import BatchArrays
from hetero_mtf.program.objective import OutputLoss
from hetero_mtf.training.batches import feed, samples

GRAPH = LayerGraph((Layer("x", "InputLayer", {"shape": [2]}, (), (2,)), Layer("d", "Activation", {}, (0,), (3,))), "float32")
X = np.zeros((4, 2))


def _sparse(**options: Any) -> Any:
    return keras.losses.SparseCategoricalCrossentropy(**options)


def _feed(loss: Any, y: Any, weight: Any = None) -> BatchArrays:
    return feed(GRAPH, (OutputLoss(loss, 1.0, "loss"),), check_batch(X, y, weight))


@pytest.mark.parametrize(
    "y, words",
    [
        (np.zeros((4, 3)), r"y has labels of shape \(3,\), the network's output is \(3,\); give one class number"),
        (np.array([0, 1, 2, 3]), "y has class numbers from 0 to 3, the network has the 3 classes 0 to 2; relabel y"),
        (np.array([0, 1, -1, 2]), "y has class numbers from -1 to 2"),
        (np.array([0, 1, 2**32, 2]), "y has class numbers from 0 to 4294967296"),
        (np.array([0.0, 1.5, 0.25, 2.0]), "y has values such as 1.5, this loss needs class numbers; give whole numbers"),
        (np.zeros(3), "x has 4 samples and y has shape"),
        (None, "y is missing; pass the targets"),
    ],
)
def test_labels_that_do_not_fit_are_refused(y: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        _feed(_sparse(), y)


@pytest.mark.parametrize("loss", ["CategoricalCrossentropy", "BinaryCrossentropy", "MeanSquaredError"])
@pytest.mark.parametrize("y", [np.zeros(4), np.zeros((4, 2)), np.zeros((4, 1))], ids=["flat", "too few", "one"])
def test_targets_of_another_shape_than_the_output_are_refused(loss: str, y: np.ndarray) -> None:
    with pytest.raises(DataError, match=r"y has targets of shape .*, the network's output is \(3,\); give targets of the output's shape"):
        _feed(getattr(keras.losses, loss)(), y)


def test_samples_of_another_shape_are_refused() -> None:
    with pytest.raises(DataError, match=r"x has samples of shape \(5,\), the network's input is \(2,\); reshape x"):
        samples(GRAPH, np.zeros((4, 5)))


def test_labels_may_be_floats_and_columns() -> None:
    assert _feed(_sparse(), np.array([[0.0], [1.0], [2.0], [0.0]])).y[0].tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize(
    "reduction, weight, scale",
    [
        ("sum_over_batch_size", None, 0.25),
        ("sum_over_batch_size", [1, 2, 3, 4], 0.25),
        ("sum", [1, 2, 3, 4], 1.0),
        ("mean_with_sample_weight", [1, 2, 3, 4], 0.1),
        ("mean_with_sample_weight", None, 0.25),
        ("mean_with_sample_weight", [0, 0, 0, 0], 0.0),
    ],
)
def test_the_scale_makes_the_weighted_sum_the_loss(reduction: str, weight: Any, scale: float) -> None:
    assert _feed(_sparse(reduction=reduction), np.zeros(4), weight).scale[0] == pytest.approx(scale)


PAIR = LayerGraph(
    (
        Layer("a", "InputLayer", {"shape": [2]}, (), (2,)),
        Layer("b", "InputLayer", {"shape": [3]}, (), (3,)),
        Layer("u", "Activation", {}, (0,), (2,)),
        Layer("v", "Activation", {}, (1,), (3,)),
    ),
    "float64",
    (2, 3, 2),
)
OBJECTIVE = (OutputLoss(keras.losses.MeanSquaredError(), 1.0, "u_loss"), OutputLoss(_sparse(reduction="sum"), 0.5, "v_loss"), None)


def test_several_inputs_and_outputs_have_each_their_own_form_weight_and_scale() -> None:
    labels = np.array([0, 1, 2, 0])
    batch = Batch((X.astype("float32"), np.zeros((4, 3))), (np.ones((4, 2)), labels, None), (None, np.arange(4.0), None))
    found = feed(PAIR, OBJECTIVE, batch)
    assert found.size == 4 and [x.dtype for x in found.x] == ["float64", "float64"]
    assert found.targets == (((2,), "float64", ()), ((), "int32", ()), None)
    assert found.scale == (0.25, 1.0, 0.0)
    assert [w.tolist() for w in found.weight] == [[1] * 4, [0, 1, 2, 3], [1] * 4]


@pytest.mark.parametrize(
    "x, y, words",
    [
        ((X, X), (X, np.zeros(4), None), r"x of b has samples of shape \(2,\), the network's input is \(3,\); reshape x"),
        ((X, np.zeros((4, 3))), (X[:, :1], np.zeros(4), None), r"y of u has targets of shape \(1,\), the network's output is \(2,\)"),
        ((X, np.zeros((4, 3))), (X, np.full(4, 3), None), "y of v has class numbers from 3 to 3"),
        (X, (X, np.zeros(4), None), "x of a batch has 1 arrays and the network takes 2; hand over a tuple of 2"),
        ((X, np.zeros((4, 3))), (X, np.zeros(4)), "y of a batch has 2 arrays and the network takes 3; hand over a tuple of 3"),
    ],
)
def test_what_does_not_fit_one_of_several_is_called_by_its_name(x: Any, y: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        feed(PAIR, OBJECTIVE, Batch(x, y))
