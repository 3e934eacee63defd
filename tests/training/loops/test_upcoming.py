"""Batches ahead of their steps: of sources, which keep their position, and of other iterators."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from hetero_mtf.data.array_source import ArraySource
from hetero_mtf.data.checked_batch import Batch
from hetero_mtf.data.source import BatchSource
from hetero_mtf.errors import DataError
from hetero_mtf.training.loops.source_adapter import SourceBatches, source_adapter
from hetero_mtf.training.loops.upcoming import Upcoming


@pytest.fixture
def source() -> Iterator[ArraySource]:
    with ArraySource(np.arange(12.0), np.arange(12.0), batch_size=4, shuffle=False) as source:
        yield source


def _batches(source: BatchSource) -> SourceBatches:
    return iter(source_adapter(source))


def _first(batch: Batch) -> float:
    return float(batch.x[0])


def test_each_batch_of_an_epoch_is_prepared_once_and_ahead(source: ArraySource) -> None:
    upcoming, batches, prepared, taken = Upcoming(), _batches(source), list[float](), list[Any]()

    def prepare(batch: Batch) -> float:
        prepared.append(_first(batch))
        return prepared[-1]

    while True:
        try:
            batch, ready = upcoming.take(batches)
        except StopIteration:
            break
        taken.append((_first(batch), ready))
        upcoming.begin(batches, prepare)
        upcoming.wait()  # a step takes longer than to prepare a batch
    assert taken == [(0.0, None), (4.0, 4.0), (8.0, 8.0)] and prepared == [4.0, 8.0]
    assert source.epoch == 1


def test_the_position_is_that_of_what_was_handed_over(source: ArraySource) -> None:
    upcoming, batches = Upcoming(), _batches(source)
    next(batches)
    upcoming.begin(batches, _first)
    upcoming.drop()
    assert source.state()["sample"] == 4 and _first(next(iter(source))) == 4.0


def test_a_batch_that_was_handed_over_before_it_was_looked_at_is_left_to_its_step(source: ArraySource) -> None:
    batches = iter(source)
    next(batches)
    upcoming = source.upcoming()
    second = next(batches)
    assert upcoming() is None and source.upcoming()() is not second


def test_what_was_prepared_of_another_batch_is_dropped(source: ArraySource) -> None:
    upcoming, batches = Upcoming(), _batches(source)
    next(batches)
    upcoming.begin(batches, _first)
    upcoming.wait()
    next(batches)
    batch, ready = upcoming.take(batches)
    assert _first(batch) == 8.0 and ready is None


def test_an_error_is_left_to_the_step(source: ArraySource) -> None:
    upcoming, batches = Upcoming(), _batches(source)
    next(batches)

    def fail(batch: Batch) -> float:
        raise ValueError("wrong")

    upcoming.begin(batches, fail)
    batch, ready = upcoming.take(batches)
    assert _first(batch) == 4.0 and ready is None


def test_other_iterators_are_drawn_from_and_what_they_raise_is_raised_by_its_step() -> None:
    def numbers() -> Iterator[int]:
        yield from (1, 2)
        raise KeyError("wrong")

    upcoming, iterator = Upcoming(), numbers()
    assert upcoming.take(iterator) == (1, None)
    upcoming.begin(iterator, lambda number: 10 * number)
    assert upcoming.take(iterator) == (2, 20)
    upcoming.begin(iterator, lambda number: 10 * number)
    with pytest.raises(KeyError, match="wrong"):
        upcoming.take(iterator)


def test_the_end_of_an_epoch_is_known_ahead_and_a_fault_of_the_source_is_raised(source: ArraySource) -> None:
    batches = _batches(source)
    assert not batches.is_over()  # nothing was asked for
    ends = [(next(batches) is not None and batches.is_over()) for _ in range(3)]
    assert ends == [False, False, True] and source.epoch == 1
    with _broken() as broken:
        batches = _batches(broken)
        next(batches)
        with pytest.raises(DataError, match="broken"):
            batches.is_over()


class _Made(BatchSource):
    """Batches of a generator, of a number that is not known beforehand."""

    kind = "made"

    def __init__(self, batches: Callable[[], Iterator[Batch]]) -> None:
        super().__init__()
        self._made = batches

    def _prepare(self, epoch: int, batch: int, sample: int) -> Iterator[Batch]:
        yield from self._made()


def _broken() -> BatchSource:
    def batches() -> Iterator[Batch]:
        yield Batch(np.zeros(2), np.zeros(2))
        raise DataError("broken")

    return _Made(batches)


def test_a_test_begins_each_pass_anew_and_a_source_of_the_users_goes_on(source: ArraySource) -> None:
    for again, firsts in ((True, [0.0, 0.0]), (False, [0.0, 4.0])):
        adapter = source_adapter(source, again, left=not again)
        assert adapter.num_batches == 3
        assert [_first(next(iter(adapter))) for _ in range(2)] == firsts
        source.begin_at(0)


def test_it_ends_where_the_source_is_closed_while_it_waits_for_a_batch() -> None:
    gate = threading.Event()

    def slow() -> Iterator[Batch]:
        yield Batch(np.zeros(2), np.zeros(2))
        gate.wait(30)
        yield Batch(np.zeros(2), np.zeros(2))

    source, upcoming = _Made(slow), Upcoming()
    batches = _batches(source)
    next(batches)
    upcoming.begin(batches, lambda batch: batch)
    closing = threading.Thread(target=source.close)
    closing.start()
    upcoming.wait()
    assert upcoming._drawn is None
    gate.set()
    closing.join(30)
