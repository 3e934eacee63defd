from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

from hetero_mtf.data import Batch
from hetero_mtf.data.ordered_source import OrderedSource
from hetero_mtf.errors import DataError


class Slow(OrderedSource):
    kind = "slow"
    delay_s = 0.02

    def _prepare(self, epoch: int, batch: int, sample: int) -> Iterator[Batch]:
        for chosen in self._batches(epoch, sample):
            time.sleep(self.delay_s)
            yield Batch(chosen[:, None], chosen)


def test_an_epoch_is_cut_into_batches_and_its_rest_begins_where_it_was_left() -> None:
    with Slow(5, 2, False, 0) as source:
        assert [batch.y.tolist() for batch in source] == [[0, 1], [2, 3], [4]]
        source.restore({**source.state(), "sample": 3})
        assert [batch.y.tolist() for batch in source] == [[3, 4]]


def test_orders_depend_on_seed_and_epoch() -> None:
    with Slow(40, 2, True, 1) as one, Slow(40, 8, True, 1) as two, Slow(40, 2, True, 2) as other:
        assert np.array_equal(one.order(3), two.order(3))
        assert not np.array_equal(one.order(3), one.order(4)) and not np.array_equal(one.order(3), other.order(3))


def test_what_was_waited_for_and_how_many_batches_came_is_counted_over_epochs() -> None:
    with Slow(4, 2, False, 0) as source:
        assert (source.handed_over, source.waited_s) == (0, 0.0)
        list(source)
        first_s = source.waited_s
        list(source)
    assert source.handed_over == 4
    assert source.waited_s > first_s >= Slow.delay_s  # sleeping never takes less than asked for


@pytest.mark.parametrize(
    ("batch_size", "seed", "message"),
    [(0, 0, "batch_size is 0; use a whole number from 1"), (True, 0, "batch_size is True"), (2, -1, "seed is -1; use a whole number")],
)
def test_options_out_of_range_are_refused(batch_size: int, seed: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Slow(4, batch_size, True, seed)
