from __future__ import annotations

import numpy as np
import pytest

from hetero_mtf.data import load
from hetero_mtf.errors import DataError


def test_the_form_decides_shape_classes_and_count() -> None:
    data = load("synthetic:5x6x2:3:41", dtype="float64")
    assert data.x_train.shape == (41, 5, 6, 2) and data.x_test.shape == (11, 5, 6, 2)
    assert data.x_train.dtype == "float64" and data.classes == 3
    assert sorted(np.bincount(data.y_train)) == [13, 14, 14]


def test_without_a_form_there_is_a_default() -> None:
    assert load("synthetic").x_train.shape == (512, 32, 32, 3)


def test_it_is_the_same_every_time() -> None:
    one, two = load("synthetic:4x4x1:2:8"), load("synthetic:4x4x1:2:8")
    np.testing.assert_array_equal(one.x_train, two.x_train)
    np.testing.assert_array_equal(one.y_test, two.y_test)


def test_classes_can_be_told_apart_on_samples_never_seen() -> None:
    data = load("synthetic:8x8x1:10:500")
    means = np.stack([data.x_train[data.y_train == c].mean(0) for c in range(10)])
    distances = ((data.x_test[:, None] - means) ** 2).sum((2, 3, 4))
    assert (distances.argmin(1) == data.y_test).mean() > 0.95


@pytest.mark.parametrize("form", ["8x8:10:5", "8x8x1:10", "0x8x1:2:5", "8x8x1:0:5", "8x8x1:10:9", "8x8x1:2:-5"])
def test_a_form_that_cannot_be_made_is_refused_with_one_that_can(form: str) -> None:
    with pytest.raises(DataError, match=f"synthetic:{form} cannot be made: expected .* at least CLASSES; write for instance synthetic"):
        load(f"synthetic:{form}")
