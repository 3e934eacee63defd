"""Batches are checked against the network and its loss before they reach a device."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from hetero_mtf.errors import DataError
from hetero_mtf.graph.records import Layer, LayerGraph
from hetero_mtf.training.batches import feed, samples

GRAPH = LayerGraph((Layer("x", "InputLayer", {"shape": [2]}, (), (2,)), Layer("d", "Activation", {}, (0,), (3,))), "float32")
X = np.zeros((4, 2))


def _sparse(**options: Any) -> Any:
    return keras.losses.SparseCategoricalCrossentropy(**options)


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
        feed(GRAPH, _sparse(), X, y)


@pytest.mark.parametrize("loss", ["CategoricalCrossentropy", "BinaryCrossentropy", "MeanSquaredError"])
@pytest.mark.parametrize("y", [np.zeros(4), np.zeros((4, 2)), np.zeros((4, 1))], ids=["flat", "too few", "one"])
def test_targets_of_another_shape_than_the_output_are_refused(loss: str, y: np.ndarray) -> None:
    with pytest.raises(DataError, match=r"y has targets of shape .*, the network's output is \(3,\); give targets of the output's shape"):
        feed(GRAPH, getattr(keras.losses, loss)(), X, y)


def test_samples_of_another_shape_are_refused() -> None:
    with pytest.raises(DataError, match=r"x has samples of shape \(5,\), the network's input is \(2,\); reshape x"):
        samples(GRAPH, np.zeros((4, 5)))


def test_labels_may_be_floats_and_columns() -> None:
    assert feed(GRAPH, _sparse(), X, np.array([[0.0], [1.0], [2.0], [0.0]])).y.tolist() == [0, 1, 2, 0]


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
    assert feed(GRAPH, _sparse(reduction=reduction), X, np.zeros(4), weight).scale == pytest.approx(scale)
