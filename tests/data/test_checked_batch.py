from __future__ import annotations

import numpy as np

from hetero_mtf.data.checked_batch import Batch, cast_batch, check_batch


def test_a_batch_knows_its_true_size() -> None:
    assert check_batch(np.zeros((3, 2)), [0, 1, 2], None).size == 3


def test_weights_of_one_column_become_flat() -> None:
    assert check_batch([[1], [2]], [0, 1], [[0.5], [2]]).sample_weight.tolist() == [0.5, 2]


def test_casting_to_no_type_returns_the_batch_itself() -> None:
    batch = Batch(np.zeros(2))
    assert cast_batch(batch, None) is batch


def test_casting_to_the_type_it_has_copies_nothing() -> None:
    batch = Batch(np.zeros(2, "float32"))
    assert cast_batch(batch, "float32").x is batch.x
