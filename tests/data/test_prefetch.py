from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from hetero_mtf.data.checked_batch import Batch
from hetero_mtf.data.prefetch import AHEAD, Prefetcher


def batches(count: int, drawn: list[int]) -> Iterator[Batch]:
    for number in range(count):
        drawn.append(number)
        yield Batch(np.full(2, number))


def test_batches_come_in_order_and_then_none() -> None:
    feed = Prefetcher(batches(3, []))
    assert [int(feed.next().x[0]) for _ in range(3)] == [0, 1, 2]
    assert feed.next() is None
    assert feed.next() is None


def test_the_next_batch_is_prepared_before_it_is_asked_for_and_not_many_more() -> None:
    drawn: list[int] = []
    second = threading.Event()

    def watched() -> Iterator[Batch]:
        for batch in batches(100, drawn):
            if len(drawn) == 2:
                second.set()
            yield batch

    feed = Prefetcher(watched())
    feed.next()
    assert second.wait(30)
    assert len(drawn) <= 1 + AHEAD + 1
    feed.close()


def test_closing_ends_the_thread_and_the_iterator() -> None:
    ended = threading.Event()

    def endless() -> Iterator[Batch]:
        try:
            while True:
                yield Batch(np.zeros(1))
        finally:
            ended.set()

    feed = Prefetcher(endless())
    feed.next()
    feed.close()
    feed.close()
    assert ended.is_set()
    assert not feed._thread.is_alive()


@pytest.mark.parametrize("fault", [ZeroDivisionError("of the user"), SystemExit(3)])
def test_a_fault_in_the_thread_reaches_the_consumer_after_the_batches_before_it(fault: BaseException) -> None:
    def broken() -> Iterator[Batch]:
        yield Batch(np.zeros(1))
        raise fault

    feed = Prefetcher(broken())
    assert feed.next() is not None
    with pytest.raises(type(fault)) as caught:
        feed.next()
    assert caught.value is fault


def test_a_fault_in_closing_the_iterator_reaches_the_consumer() -> None:
    class Stubborn:
        def __iter__(self) -> Stubborn:
            return self

        def __next__(self) -> Batch:
            raise StopIteration

        def close(self) -> None:
            raise OSError("cannot close")

    with pytest.raises(OSError, match="cannot close"):
        Prefetcher(Stubborn()).next()
