from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from hetero_mtf.data import ArraySource, batch_source
from hetero_mtf.data.factory import is_stream
from hetero_mtf.errors import DataError

X, Y = np.zeros((5, 2)), np.arange(5)


def stream() -> Iterator[Any]:
    return iter([(X, Y)])


@pytest.mark.parametrize(("x", "y"), [(X, Y), (X.tolist(), Y.tolist())])
def test_arrays_have_a_source(x: Any, y: Any) -> None:
    with batch_source(x, y) as source:
        assert type(source) is ArraySource and not is_stream(x, y)
        assert sum(batch.size for batch in source) == 5


def test_tensors_are_arrays() -> None:
    import tensorflow as tf

    with batch_source(tf.zeros((5, 2)), tf.range(5), batch_size=2) as source:
        assert [batch.size for batch in source] == [2, 2, 1]


def test_a_source_is_returned_as_it_is() -> None:
    source = ArraySource(X, Y)
    assert batch_source(source) is source and not is_stream(source)


def test_arrays_without_labels_serve_for_predicting_only() -> None:
    assert next(iter(batch_source(X, labels=False))).y is None
    with pytest.raises(DataError, match="x is an array and y is missing; pass the labels as y"):
        batch_source(X)


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        (X, {"y": Y, "steps_per_epoch": 0}, "steps_per_epoch is 0; use a whole number from 1, or leave it out"),
        (stream(), {"y": Y}, "x is a list_iterator and y cannot go with it; leave it out, or hand it over within x"),
        (ArraySource(X, Y), {"y": Y, "class_weight": {0: 1}}, "x is a BatchSource and y, class_weight cannot go with it"),
    ],
)
def test_an_option_that_does_not_go_with_the_data_is_refused(x: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        batch_source(x, **options)


def test_a_tensor_dataset_with_labels_beside_it_is_refused() -> None:
    import tensorflow as tf

    with pytest.raises(DataError, match="and y cannot go with it"):
        batch_source(tf.data.Dataset.from_tensors((X, Y)), Y)


def test_weights_beside_a_stream_are_refused() -> None:
    assert is_stream(stream())
    with pytest.raises(DataError, match="x is a stream of batches and sample_weight cannot go with it"):
        is_stream(stream(), None, [1])
