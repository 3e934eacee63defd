"""Objectives: losses, weights and names of several outputs as Keras's compile takes them, or refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.structure import Structure
from hetero_mtf.program.objective import read_objective

ONE = Structure.of("out")
LIST = Structure.of(["a", "b"])
DICT = Structure.of({"b": "x", "a": "y"})
NESTED = Structure.of({"q": ["x", "y"], "o": "z"})


def _found(loss: Any, weights: Any, outputs: Structure) -> list[Any]:
    return [part and (type(part.loss).__name__, part.weight, part.name) for part in read_objective(loss, weights, outputs)]


MSE, BCE = "MeanSquaredError", "BinaryCrossentropy"


@pytest.mark.parametrize(
    "loss, weights, outputs, expected",
    [
        ("mse", None, ONE, [(MSE, 1.0, "out_loss")]),
        (["mse"], [0.5], ONE, [(MSE, 0.5, "out_loss")]),
        ({"out": "mse"}, 0.5, ONE, [(MSE, 0.5, "out_loss")]),
        ("mse", None, LIST, [(MSE, 1.0, "a_loss"), (MSE, 1.0, "b_loss")]),
        ("mse", 0.3, LIST, [(MSE, 0.3, "a_loss"), (MSE, 0.3, "b_loss")]),
        (["mse", "binary_crossentropy"], [None, 2], LIST, [(MSE, 1.0, "a_loss"), (BCE, 2.0, "b_loss")]),
        ({"b": "mse", "a": None}, {"b": 2.0, "a": 1.0}, LIST, [None, (MSE, 2.0, "b_loss")]),
        (["mse", "binary_crossentropy"], {"b": 2.0, "a": 3.0}, LIST, [(MSE, 3.0, "a_loss"), (BCE, 2.0, "b_loss")]),
        ({"b": "mse"}, None, DICT, [None, (MSE, 1.0, "b_loss")]),
        ({"q": ["mse", None], "o": "mse"}, None, NESTED, [(MSE, 1.0, "o_loss"), (MSE, 1.0, "q/x_loss"), None]),
    ],
)
def test_every_output_gets_its_loss_weight_and_name(loss: Any, weights: Any, outputs: Structure, expected: list[Any]) -> None:
    assert _found(loss, weights, outputs) == expected


@pytest.mark.parametrize(
    "loss, weights, outputs, words",
    [
        (None, None, LIST, "the loss None is not supported; give a loss for at least one output"),
        ([None, None], None, LIST, "give a loss for at least one output"),
        (["mse"], None, LIST, "loss is a list of 1, the model has 2 values a, b; give a list of 2, or a dict"),
        ({"a": "mse"}, None, LIST, "loss is a dict of a, the model has 2 values a, b"),
        ({"a": "mse", "c": "mse"}, None, DICT, "loss is a dict of a, c, the model has 2 values a, b"),
        (["mse", "mse"], [1.0], LIST, "loss_weights is a list of 1, the model has 2 values a, b"),
        (["mse", "mse"], [1.0, "much"], LIST, "the loss weight of output b is 'much'; give a finite number"),
        ("mse", float("nan"), ONE, "the loss weight of output out is nan; give a finite number"),
        (["mse", "mse"], {"y": 1.0, "x": 2.0}, Structure.of(["y", "x"]), "by the sorted names and not by the names; give both as dicts"),
        (["mse", "nonsense"], None, LIST, "the loss 'nonsense' is unknown to Keras"),
        (["mse", "mse"], None, ONE, "loss is a list of 2|the loss .* is no loss"),
    ],
)
def test_what_keras_would_refuse_or_mistake_is_refused(loss: Any, weights: Any, outputs: Structure, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        read_objective(loss, weights, outputs)
