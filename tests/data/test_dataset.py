from __future__ import annotations

import numpy as np
import pytest

from hetero_mtf.data.dataset import Dataset, count_classes, hold_out
from hetero_mtf.errors import DataError


def test_parts_that_do_not_fit_are_all_named() -> None:
    message = (
        r"data set z does not fit together: x_train has 3 samples and y_train 2; x_test is empty; "
        r"a sample has shape \(2,\) in x_train and \(4,\) in x_test; a label has shape \(\) in y_train and \(1,\) in y_test; fix"
    )
    with pytest.raises(DataError, match=message):
        Dataset("z", np.zeros((3, 2)), np.zeros(2), np.zeros((0, 4)), np.zeros((0, 1)), 2)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [([0, 2], 3), ([[0], [4]], 5), ([[0, 1, 0], [1, 0, 0]], 3), ([[1.0, 0.0]], 2), ([0.5, 1], 0), ([[0.5, 1]], 0), ([[0, 2], [1, 0]], 0)],
)
def test_classes_are_counted_from_numbers_and_one_hot_rows(labels, classes: int) -> None:
    assert count_classes(np.array(labels)) == classes


def test_the_held_out_part_is_disjoint_complete_and_has_a_fifth_of_every_class() -> None:
    y = np.repeat(np.arange(4), [10, 20, 30, 40])
    kept, held = hold_out(y)
    assert sorted([*kept, *held]) == list(range(100))
    assert np.bincount(y[held]).tolist() == [2, 4, 6, 8]


def test_holding_out_works_without_classes_and_with_a_class_of_one() -> None:
    for y in (np.linspace(0, 1, 10), np.array([0] * 9 + [1]), np.zeros((10, 3)), np.arange(10)):
        kept, held = hold_out(y)
        assert (len(kept), len(held)) == (8, 2)


def test_arrays_are_handed_over_in_batches_by_part() -> None:
    data = Dataset("z", np.arange(10.0).reshape(5, 2), np.arange(5), np.zeros((3, 2)), np.ones(3, int), 5)
    assert (data.sample_shape, data.label_shape, data.counts, data.lines) == ((2,), (), {"train": 5, "test": 3}, ())
    with data.training(2, seed=1) as source:
        labels = [batch.y.tolist() for batch in source]
    assert [len(part) for part in labels] == [2, 2, 1] and sorted(sum(labels, [])) == [0, 1, 2, 3, 4] and sum(labels, []) != [0, 1, 2, 3, 4]
    with data.testing(2) as tested, data.testing(5, "train") as trained:
        assert [batch.y.tolist() for batch in tested] == [[1, 1], [1]] and [batch.y.tolist() for batch in trained] == [[0, 1, 2, 3, 4]]
    x, y = data.first(2)
    assert x.tolist() == [[0, 1], [2, 3]] and y.tolist() == [0, 1]
