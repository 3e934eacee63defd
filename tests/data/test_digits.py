from __future__ import annotations

import numpy as np

from hetero_mtf.data import load


def test_the_digits_are_images_from_zero_to_one_with_a_fifth_held_out() -> None:
    data = load("digits")
    assert data.x_train.shape == (1437, 8, 8, 1) and data.x_test.shape == (360, 8, 8, 1)
    assert data.x_train.dtype == "float32" and data.y_train.dtype == "int64"
    assert (data.x_train.min(), data.x_train.max(), data.classes) == (0, 1, 10)


def test_every_class_is_held_out_alike_and_always_the_same() -> None:
    one, two = load("digits", dtype="float64"), load("digits")
    counts = np.bincount(one.y_test)
    assert counts.min() >= 34 and counts.max() <= 37
    np.testing.assert_array_equal(one.x_test, two.x_test)
    assert one.x_test.dtype == "float64"
