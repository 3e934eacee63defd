from __future__ import annotations

import weakref

from hetero_mtf.runtime.process_memory import return_memory


class Node:
    """One of two that refer to each other."""

    other: Node


def test_what_is_left_in_a_cycle_of_references_is_collected() -> None:
    first, second = Node(), Node()
    first.other, second.other = second, first
    left = weakref.ref(first)
    del first, second
    return_memory()
    assert left() is None
