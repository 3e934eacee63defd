"""Which batch a step reads."""

import numpy as np
import pytest
import tensorflow as tf

from hetero_mtf.program.batch_arrays import BatchArrays
from hetero_mtf.program.feeding.shared_batches import SharedBatches
from hetero_mtf.runtime.shared.batch_memory import read_part


def _batch(value: float) -> BatchArrays:
    return BatchArrays((np.full((2, 3), value),), (), (), ())


@pytest.fixture
def shared() -> SharedBatches:
    return SharedBatches("container", [((2, 3), "float64")], [tf.float64])


def _present(shared: SharedBatches) -> float:
    return float(read_part(shared._memory.order(0, [0, 0], [2, 3])).mean())


def test_the_batch_in_use_stays_while_the_next_one_is_staged(shared: SharedBatches) -> None:
    first, second, third = map(_batch, (1.0, 2.0, 3.0))
    shared.use(first, first.x)
    shared.stage(second, second.x)
    assert _present(shared) == 1.0
    shared.use(second, second.x)
    assert _present(shared) == 2.0
    shared.stage(third, third.x)
    assert _present(shared) == 2.0


def test_a_batch_that_is_staged_before_the_one_in_front_of_it_is_used_takes_another_slot(shared: SharedBatches) -> None:
    first, second, third, fourth = map(_batch, (1.0, 2.0, 3.0, 4.0))
    shared.use(first, first.x)
    shared.stage(second, second.x)
    for present, ahead, value in ((second, third, 2.0), (third, fourth, 3.0)):
        shared.stage(ahead, ahead.x)
        present.x[0][:] = 9.0  # seen if the batch were written again
        shared.use(present, present.x)
        assert _present(shared) == value


def test_a_staged_batch_that_is_not_used_is_replaced(shared: SharedBatches) -> None:
    first, staged, other = map(_batch, (1.0, 2.0, 3.0))
    shared.use(first, first.x)
    shared.stage(staged, staged.x)
    shared.use(other, other.x)
    assert _present(shared) == 3.0
    shared.use(staged, staged.x)
    assert _present(shared) == 2.0


def test_a_batch_that_is_used_again_is_not_written_again(shared: SharedBatches) -> None:
    batch = _batch(1.0)
    shared.use(batch, batch.x)
    batch.x[0][:] = 5.0
    shared.use(batch, batch.x)
    assert _present(shared) == 1.0
    again = BatchArrays(batch.x, (), (), ())
    shared.use(again, again.x)
    assert _present(shared) == 5.0
