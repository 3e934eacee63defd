"""Functions of other libraries are replaced in one thread alone, and are back in the end, in whatever order threads leave."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf

from hetero_mtf.keras_reading.traced_calls.present_tensors import compared_by_elements, present_tensors
from hetero_mtf.keras_reading.traced_calls.replacements import replaced


class Owner:
    """A class with a function and a property."""

    def one(self) -> int:
        return 1

    @property
    def two(self) -> int:
        return 2


class Other(threading.Thread):
    """A thread that has a context open until it is told to leave."""

    def __init__(self, *contexts: Any) -> None:
        super().__init__(daemon=True)
        self._contexts, self.inside, self.leave = contexts, threading.Event(), threading.Event()
        self.start()
        assert self.inside.wait(30)

    def run(self) -> None:
        for context in self._contexts:
            context.__enter__()
        self.inside.set()
        self.leave.wait(30)
        for context in reversed(self._contexts):
            context.__exit__(None, None, None)

    def end(self) -> None:
        self.leave.set()
        self.join(30)


@pytest.fixture
def other() -> Iterator[Other]:
    thread = Other(compared_by_elements(), present_tensors())
    yield thread
    thread.end()


def _more(by: int) -> Any:
    return lambda own: lambda each: own(each) + by


def test_replacements_are_nested_and_leave_nothing() -> None:
    before = dict(vars(Owner))
    with replaced(Owner, "one", _more(10)), replaced(Owner, "two", _more(10)):
        with replaced(Owner, "one", _more(100)):
            assert Owner().one() == 111
        assert Owner().one() == 11 and Owner().two == 12
        with pytest.raises(KeyError), replaced(Owner, "one", _more(5)):
            raise KeyError
    assert Owner().one() == 1 and Owner().two == 2 and dict(vars(Owner)) == before


def test_other_threads_keep_theirs_and_may_leave_first_or_last() -> None:
    before = vars(Owner)["one"]
    first = Other(replaced(Owner, "one", _more(10)))
    assert Owner().one() == 1
    with replaced(Owner, "one", _more(100)):
        assert Owner().one() == 101
        first.end()
        assert Owner().one() == 101
        last = Other(replaced(Owner, "one", _more(1000)))
    assert Owner().one() == 1
    last.end()
    assert vars(Owner)["one"] is before


def test_tensors_are_compared_by_identity_while_another_thread_builds_a_graph(other: Other) -> None:
    eager = tf.constant(1.0)
    with tf.Graph().as_default():
        tensors = [tf.compat.v1.placeholder("float32", ()) for _ in range(2)]
        assert tensors[1] in tensors and tensors.index(tensors[1]) == 1
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            tf.add(tensors[0], eager)
