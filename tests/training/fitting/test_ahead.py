"""Batches ahead of their steps."""

import threading

import numpy as np
import pytest

from hetero_mtf.data.array_source import ArraySource
from hetero_mtf.data.batch import Batch
from hetero_mtf.program.batch_arrays import BatchArrays
from hetero_mtf.training.fitting.ahead import Ahead


def _arrays(batch: Batch) -> BatchArrays:
    return BatchArrays((batch.x,), (), (), ())


@pytest.fixture
def source():
    with ArraySource(np.arange(12.0), np.arange(12.0), batch_size=4, shuffle=False) as source:
        yield source


def test_each_batch_of_an_epoch_is_prepared_once_and_ahead(source) -> None:
    ahead, prepared, taken = Ahead(), [], []

    def prepare(batch: Batch) -> BatchArrays:
        prepared.append(batch)
        return _arrays(batch)

    for batch in source:
        taken.append(ahead.take(batch))
        ahead.begin(source, prepare)
        ahead._thread.join()  # a step takes longer than to prepare a batch
    ahead.take(None)
    assert taken[0] is None and len(prepared) == 2
    assert [float(arrays.x[0][0]) for arrays in taken[1:]] == [4.0, 8.0]
    assert source.epoch == 1


def test_the_position_is_that_of_what_was_handed_over(source) -> None:
    ahead = Ahead()
    next(iter(source))
    ahead.begin(source, _arrays)
    ahead.take(None)
    assert source.state()["sample"] == 4 and float(next(iter(source)).x[0]) == 4.0


def test_a_batch_that_was_handed_over_before_it_was_looked_at_is_left_to_its_step(source) -> None:
    batches = iter(source)
    next(batches)
    upcoming = source.upcoming()
    second = next(batches)
    assert upcoming() is None and source.upcoming()() is not second


def test_what_was_prepared_of_another_batch_is_dropped(source) -> None:
    ahead = Ahead()
    first = next(iter(source))
    ahead.begin(source, _arrays)
    assert ahead.take(first) is None
    assert ahead.take(source.upcoming()()) is None


def test_an_error_is_left_to_the_step(source) -> None:
    ahead = Ahead()
    next(iter(source))

    def fail(batch: Batch) -> BatchArrays:
        raise ValueError("wrong")

    ahead.begin(source, fail)
    assert ahead.take(source.upcoming()()) is None


def test_it_ends_where_the_source_is_closed_while_it_waits_for_a_batch() -> None:
    from hetero_mtf.data.stream_source import StreamSource

    gate = threading.Event()

    def slow():
        yield np.zeros(2), np.zeros(2)
        gate.wait(30)
        yield np.zeros(2), np.zeros(2)

    source, ahead = StreamSource(slow()), Ahead()
    next(iter(source))
    ahead.begin(source, _arrays)
    closing = threading.Thread(target=source.close)
    closing.start()
    assert ahead.take(None) is None
    gate.set()
    closing.join(30)
