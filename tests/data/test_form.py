"""Forms: what a model with several inputs and outputs is fed with, in all the ways that Keras takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hetero_mtf.data import batch_source
from hetero_mtf.data.checked_batch import add_class_weight, check_batch
from hetero_mtf.data.factory import is_stream
from hetero_mtf.data.form import Form
from hetero_mtf.errors import DataError
from hetero_mtf.graph.structure import Structure

PAIR = Form(Structure.of(["a", "b"]), Structure.of(["u", "v"]), (True, True))
KEYED = Form(Structure.of({"b": "x", "a": "y"}), Structure.of({"v": "p", "u": "q"}), (True, False))
ONE = Form(Structure.of("only"), Structure.of("out"), (True,))
A, B = np.arange(10.0).reshape(5, 2), np.arange(5.0).reshape(5, 1)
U, V = np.arange(5), np.arange(5) % 2


@pytest.mark.parametrize("x", [[A, B], (A, B), {"b": B, "a": A}], ids=["list", "tuple", "dict"])
@pytest.mark.parametrize("y", [[U, V], {"v": V, "u": U}], ids=["list", "dict"])
def test_arrays_in_any_packing_are_cut_into_the_same_batches(x: Any, y: Any) -> None:
    with batch_source(x, y, batch_size=2, shuffle=False, form=PAIR) as source:
        batches = list(source)
    assert [batch.size for batch in batches] == [2, 2, 1] and source.samples == 5
    for at in (0, 1):
        np.testing.assert_array_equal(np.concatenate([batch.x[at] for batch in batches]), (A, B)[at])
        np.testing.assert_array_equal(np.concatenate([batch.y[at] for batch in batches]), (U, V)[at])


def test_a_batch_may_be_of_dicts_and_lists() -> None:
    items = [({"b": B, "a": A}, [U, V], {"u": np.ones(5), "v": np.zeros(5)}), ((A, B), (U, V), np.ones(5))]
    first, second = (check_batch(*item, form=PAIR) for item in items)
    assert first.x[1] is B and first.y[0] is U and [w.sum() for w in first.sample_weight] == [5, 0]
    assert second.x[0] is A and second.sample_weight.sum() == 5


def test_a_form_that_was_made_of_a_dict_has_the_order_of_its_keys() -> None:
    found = check_batch({"b": B, "a": A}, {"u": U}, None, form=KEYED)
    assert found.x[0] is A and found.x[1] is B and found.y[0] is U and found.y[1] is None


def test_what_is_to_be_predicted_may_be_a_list_of_arrays() -> None:
    with batch_source([A, B], batch_size=3, shuffle=False, labels=False, form=PAIR) as source:
        assert [batch.size for batch in source] == [3, 2]
    assert not is_stream([A, B], labels=False, form=PAIR) and is_stream(iter([(A, B)]), labels=False, form=PAIR)


def test_one_input_and_one_output_may_be_called_by_name() -> None:
    found = check_batch({"only": A}, {"out": U}, {"out": np.ones(5)}, form=ONE)
    assert found.x is A and found.y is U and found.sample_weight.sum() == 5


@pytest.mark.parametrize("pack", [list, tuple])
def test_one_array_may_come_in_a_list_as_in_keras(pack: type) -> None:
    form = Form(ONE.inputs, ONE.outputs, (True,), (2,))
    found = check_batch(pack([A]), pack([U]), None, form=form)
    assert found.x is A and found.y is U
    rows = check_batch(list(A), list(U), None, form=form)
    assert rows.x.shape == A.shape and rows.y.shape == U.shape
    single = check_batch([A[0]], [V[0]], None, form=form)
    assert single.x.shape == (1, 2) and single.y.shape == (1,)


def test_labels_of_outputs_without_a_loss_may_be_left_out() -> None:
    form = Form(PAIR.inputs, Structure.of(["u", "v", "w"]), (True, False, True))
    for y in ([U, V], {"w": V, "u": U}, [U, None, V]):
        found = check_batch([A, B], y, None, form=form).y
        assert found[0] is U and found[1] is None and found[2] is V
    single = Form(PAIR.inputs, PAIR.outputs, (False, True))
    assert check_batch([A, B], V, None, form=single).y == (None, V)


@pytest.mark.parametrize("weight", [[np.ones(5), None], {"u": np.ones(5), "v": None}])
def test_weights_may_be_given_for_some_outputs(weight: Any) -> None:
    found = check_batch([A, B], [U, V], weight, form=PAIR).sample_weight
    assert found[0].sum() == 5 and found[1] is None


@pytest.mark.parametrize(
    "x, y, weight, words",
    [
        (A, [U, V], None, "x is one ndarray, the model has 2 values a, b; give a list of 2, or a dict"),
        ([A, B[:3]], [U, V], None, "x does not fit together: input b has 3 samples and input a 5; there must be as many of each"),
        ([A, np.zeros((0, 1))], [U, V], None, r"x of b is empty, its shape is \(0, 1\)"),
        ([A, "text"], [U, V], None, "x of b holds values of type"),
        ([A, B], U, None, "y is one ndarray, the model has 2 values u, v"),
        ([A, B], [U, None], None, "y is missing for output v, which has a loss; pass its targets"),
        ([A, B], [U, V[:2]], None, r"x has 5 samples and y of v has shape \(2,\); there must be one label a sample"),
        ([A, B], [U, V], {"u": [1] * 5}, "sample_weight is a dict of u, the model has 2 values"),
        ([A, B], [U, V], [np.ones(5), np.ones(4)], r"x has 5 samples and sample_weight of v has shape \(4,\)"),
        ([A, B], [U, V], [np.ones(5), -np.ones(5)], "sample_weight of v goes down to -1; weights must not be negative"),
    ],
)
def test_what_does_not_fit_the_model_is_named(x: Any, y: Any, weight: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        check_batch(x, y, weight, form=PAIR)


def test_a_batch_is_named_by_its_number() -> None:
    with pytest.raises(DataError, match="x of batch 0 is a dict of a, the model has 2 values a, b"):
        check_batch({"a": A}, [U, V], None, " of batch 0", PAIR)


def test_class_weights_go_with_one_output_only() -> None:
    with pytest.raises(DataError, match="class_weight goes with one output and there are 2; pass sample_weight instead"):
        add_class_weight(check_batch([A, B], [U, V], None, form=PAIR), {0: 1.0})


def test_a_dict_without_labels_is_no_stream() -> None:
    with pytest.raises(DataError, match="x is a dict and y is missing; pass the labels as y"):
        batch_source({"a": A, "b": B}, form=PAIR)
