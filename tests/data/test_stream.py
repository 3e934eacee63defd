"""What Keras itself draws batches from."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

from hetero_mtf.data.stream import checked_stream
from hetero_mtf.errors import DataError

X, Y = np.zeros((5, 2)), np.arange(5)


def test_an_iterator_is_handed_over_as_a_generator_which_keras_needs() -> None:
    stream = checked_stream(iter([(X, Y)]), None)
    assert isinstance(stream, types.GeneratorType) and len(list(stream)) == 1
    own = (batch for batch in [(X, Y)])
    assert checked_stream(own, None) is own


def test_an_endless_tensor_dataset_needs_steps() -> None:
    import tensorflow as tf

    endless = tf.data.Dataset.from_tensors((X, Y)).repeat()
    with pytest.raises(DataError, match=r"the stream of batches never ends; pass steps, or cut it"):
        checked_stream(endless, None)
    assert checked_stream(endless, 3) is endless
    finite = tf.data.Dataset.from_tensors((X, Y))
    assert checked_stream(finite, None) is finite


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        (None, "NoneType; pass a generator, a keras.utils.PyDataset"),
        ([(X, Y)], "list; pass a generator"),
        (lambda: iter([(X, Y)]), "function; call it, for its generator"),
        ("digits", "str; pass a generator"),
        (3, "int; pass a generator"),
    ],
)
def test_what_keras_does_not_draw_from_is_refused_with_what_it_does(value: Any, remedy: str) -> None:
    with pytest.raises(DataError, match=f"batches cannot be drawn from a {remedy}"):
        checked_stream(value, None)
