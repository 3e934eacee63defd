"""Graphs as chains."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.errors import DataError
from tools.bench.others.linear import boundary_sums, depth_first_order

EDGES = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)).map(sorted).filter(lambda pair: pair[0] < pair[1]).map(tuple), max_size=20)


@given(EDGES)
def test_the_order_has_every_source_before_what_reads_it(edges: list[tuple[int, int]]) -> None:
    order = depth_first_order(8, edges, "a file")
    assert sorted(order) == list(range(8))
    assert all(order.index(a) < order.index(b) for a, b in edges)


def test_a_branch_is_finished_before_the_next_one_begins() -> None:
    assert depth_first_order(6, [(0, 1), (1, 2), (0, 3), (3, 4), (2, 5), (4, 5)], "a file") == [0, 3, 4, 1, 2, 5]
    assert depth_first_order(0, [], "a file") == []


def test_a_cycle_is_refused() -> None:
    with pytest.raises(DataError, match="the edges of a file form a cycle through 2 of 3 nodes; remove"):
        depth_first_order(3, [(0, 1), (1, 2), (2, 1)], "a file")


@given(EDGES, st.lists(st.integers(0, 100), min_size=8, max_size=8))
def test_a_boundary_is_crossed_by_each_node_that_is_read_behind_it_once(edges: list[tuple[int, int]], amounts: list[int]) -> None:
    sums = boundary_sums(range(8), edges, amounts, 8)
    for boundary in range(1, 8):
        assert sums[boundary - 1] == sum(amounts[a] for a in {a for a, b in edges if a < boundary <= b})


def test_backward_edges_cross_too_and_blocks_of_several_nodes_hide_their_own() -> None:
    assert boundary_sums([0, 0, 1], [(0, 1), (2, 0), (1, 2)], [5.0, 7.0, 9.0], 2).tolist() == [16.0]
    assert boundary_sums([0], [], [5.0], 1).tolist() == []
