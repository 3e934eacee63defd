from __future__ import annotations

import json
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.data import ArraySource, Batch
from hetero_mtf.errors import DataError
from tests.cases import examples


def numbered(samples: int = 10, **options) -> ArraySource:
    x = np.arange(samples, dtype="float32")[:, None]
    return ArraySource(x, np.arange(samples), **{"batch_size": 4, "seed": 3, **options})


def labels(batches) -> list[int]:
    return [int(label) for batch in batches for label in batch.y]


def test_an_epoch_holds_every_sample_once_and_its_last_batch_is_short() -> None:
    with numbered() as source:
        batches = list(source)
    assert [batch.size for batch in batches] == [4, 4, 2]
    assert sorted(labels(batches)) == list(range(10))
    assert source.batches_per_epoch == 3 and source.samples == 10


def test_samples_labels_and_weights_stay_together() -> None:
    x = np.arange(7.0)[:, None]
    with ArraySource(x, np.arange(7), np.arange(7) / 7, batch_size=3) as source:
        for batch in source:
            np.testing.assert_allclose(batch.x[:, 0], batch.y)
            np.testing.assert_allclose(batch.sample_weight, batch.y / 7)


def test_epochs_have_different_orders_and_the_same_seed_the_same_ones() -> None:
    with numbered(50) as one, numbered(50) as two, numbered(50, seed=4) as other:
        first, second = labels(one), labels(one)
        assert first != second
        assert (labels(two), labels(two)) == (first, second)
        assert labels(other) != first


def test_without_shuffling_the_order_is_that_of_the_arrays() -> None:
    with numbered(shuffle=False) as source:
        assert labels(source) == labels(source) == list(range(10))


@pytest.mark.slow
@examples(10, 40)
@given(samples=st.integers(1, 30), batch_size=st.integers(1, 12), stop=st.integers(0, 40), again=st.integers(1, 12))
def test_an_interrupted_run_meets_the_samples_of_an_uninterrupted_one(samples: int, batch_size: int, stop: int, again: int) -> None:
    with numbered(samples, batch_size=batch_size) as whole:
        expected = [labels(whole) for _ in range(42)]
    with numbered(samples, batch_size=batch_size) as first:
        given, left = [], stop
        while left > 0:
            for batch in first:
                given.append(batch)
                left -= 1
                if not left:
                    break
        state = json.loads(json.dumps(first.state()))
    with numbered(samples, batch_size=again, seed=99) as second:
        second.restore(state)
        rest = labels(second)
        assert labels(given) + rest == sum(expected[: second.epoch], [])
        assert labels(second) == expected[second.epoch - 1]


def test_leaving_an_epoch_early_loses_no_batch() -> None:
    with numbered(shuffle=False) as source:
        for _ in source:
            break
        assert labels(source) == [4, 5, 6, 7, 8, 9]
        assert source.epoch == 1


def test_a_position_at_the_end_of_an_epoch_gives_no_batch_and_then_the_next_epoch() -> None:
    with numbered() as source:
        epoch = iter(source)
        for _ in range(3):
            next(epoch)
        state = source.state()
    with numbered() as source:
        source.restore(state)
        assert list(source) == []
        assert len(list(source)) == 3 and source.epoch == 2


def test_restoring_while_a_batch_is_ready_forgets_that_batch() -> None:
    with numbered(shuffle=False) as source:
        start = source.state()
        epoch = iter(source)
        next(epoch)
        source.restore(start)
        assert list(epoch) == []
        assert labels(source) == list(range(10))


def test_closing_ends_the_thread_and_a_closed_source_refuses_to_go_on() -> None:
    before = threading.active_count()
    source = numbered()
    next(iter(source))
    source.close()
    source.close()
    assert threading.active_count() == before
    with pytest.raises(DataError, match="this source of batches was closed; make a new one"):
        iter(source)


def test_class_weights_become_sample_weights_and_unlisted_classes_weigh_one() -> None:
    y = np.array([0, 1, 2, 1])
    with ArraySource(np.zeros((4, 1)), y, shuffle=False, class_weight={1: 3, 2: 0.5}) as source:
        np.testing.assert_allclose(next(iter(source)).sample_weight, [1, 3, 0.5, 3])
    with ArraySource(np.zeros((4, 1)), np.eye(3)[y], shuffle=False, class_weight={1: 3, 2: 0.5}) as source:
        np.testing.assert_allclose(next(iter(source)).sample_weight, [1, 3, 0.5, 3])
    with ArraySource(np.zeros((4, 1)), y[:, None], shuffle=False, class_weight={1: 3, 2: 0.5}) as source:
        np.testing.assert_allclose(next(iter(source)).sample_weight, [1, 3, 0.5, 3])


def test_class_weights_of_pixels_follow_the_last_dimension() -> None:
    y = np.array([[[0, 1], [2, 1]], [[1, 1], [0, 2]]])
    expected = np.array([1.0, 3.0, 0.5])[y]
    for labels in (np.eye(3)[y], y[..., None]):
        with ArraySource(np.zeros((2, 1)), labels, shuffle=False, class_weight={1: 3, 2: 0.5}) as source:
            np.testing.assert_allclose(next(iter(source)).sample_weight, expected)


def test_class_weights_are_those_of_keras() -> None:
    from keras.src.trainers.data_adapters.data_adapter_utils import class_weight_to_sample_weights

    y, weights = np.array([0, 4, 2, 1, 2]), {0: 0.25, 2: 5.0}
    with ArraySource(np.zeros((5, 1)), y, shuffle=False, class_weight=weights) as source:
        np.testing.assert_allclose(next(iter(source)).sample_weight, class_weight_to_sample_weights(y, weights))


def test_samples_and_weights_are_cast_and_labels_are_not() -> None:
    x = np.full((2, 2), 255, np.uint8)
    with ArraySource(x, np.array([1, 0]), [1, 2], dtype="float64") as source:
        batch = next(iter(source))
    assert (batch.x.dtype, batch.y.dtype, batch.sample_weight.dtype) == ("float64", "int64", "float64")


def test_without_labels_the_batches_have_none() -> None:
    with ArraySource(np.zeros((3, 1))) as source:
        batch = next(iter(source))
    assert isinstance(batch, Batch) and batch.y is None and batch.sample_weight is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": np.zeros((5, 2)), "y": np.zeros(4)}, r"x has 5 samples and y has shape \(4,\); there must be one label a sample"),
        ({"x": np.zeros((0, 2)), "y": np.zeros(0)}, r"x is empty, its shape is \(0, 2\); there must be at least one sample"),
        ({"x": 3.0}, r"x is a single number; hand over an array"),
        ({"x": [[1, 2], [3]]}, r"x is not an array .*; pass a NumPy array whose samples all have the same shape"),
        ({"x": ["a", "b"]}, r"x holds values of type <U1, not numbers; turn them into numbers first"),
        ({"x": np.zeros((2, 1)), "y": np.array(["cat", "dog"])}, r"y holds values of type <U3, not numbers"),
        ({"x": np.zeros((3, 1)), "y": [0, np.nan, np.inf]}, r"y has NaN or infinite values in 2 of 3 samples, the first at 1; remove them"),
        ({"x": np.zeros((3, 1)), "y": [0, 1, 2], "sample_weight": [1, 2]}, r"sample_weight has shape \(2,\); there must be one weight"),
        ({"x": np.zeros((2, 1)), "y": [0, 1], "sample_weight": [1, -2]}, r"sample_weight goes down to -2; weights must not be negative"),
        ({"x": np.zeros((2, 1)), "y": [0, 1], "sample_weight": [1, np.nan]}, r"sample_weight has NaN or infinite values in 1 of 2 samples"),
        ({"x": np.zeros((2, 1)), "batch_size": 0}, r"batch_size is 0; use a whole number from 1"),
        ({"x": np.zeros((2, 1)), "batch_size": 2.5}, r"batch_size is 2.5; use a whole number from 1"),
        ({"x": np.zeros((2, 1)), "seed": -1}, r"seed is -1; use a whole number from 0"),
        ({"x": np.zeros((2, 1)), "class_weight": {0: 1}}, r"class_weight needs labels and there are none; pass y"),
        ({"x": np.zeros((2, 1)), "y": [0, 1], "class_weight": {0: -1}}, r"class_weight has \{0: -1.0\}; class numbers and"),
        ({"x": np.zeros((2, 1)), "y": [0, 1], "class_weight": 7}, r"class_weight 7 is not a dict from class number to weight; write"),
        ({"x": np.zeros((2, 1)), "y": [0, 0.5], "class_weight": {0: 1}}, r"needs class numbers and y has values such as 0.5; pass"),
        (
            {"x": np.zeros((2, 1)), "y": [0, 1], "sample_weight": [1, 1], "class_weight": {0: 1}},
            r"class_weight and sample_weight are both given; multiply them yourself",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(arguments: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ArraySource(**arguments)


def test_a_position_of_other_data_is_refused_with_every_fault() -> None:
    with numbered(10) as source, numbered(12, shuffle=False) as other:
        with pytest.raises(DataError, match=r"within 12 samples and there are 10; shuffle was False and is True; restore a checkpoint"):
            source.restore(other.state())
        with pytest.raises(DataError, match=r"epoch is -1, not a whole number from 0; batch is None.*seed is 'x'"):
            source.restore({**source.state(), "epoch": -1, "batch": None, "seed": "x"})
        with pytest.raises(DataError, match=r"sample is 11, beyond the 10 there are"):
            source.restore({**source.state(), "sample": 11})
        with pytest.raises(DataError, match=r"it is of 'stream' and this source is of 'arrays'"):
            source.restore({**source.state(), "kind": "stream"})
        with pytest.raises(DataError, match=r"it is a list, not a dict"):
            source.restore([])
        assert len(labels(source)) == 10
