"""Buckets hold every tensor once, in order and up to their limit, and no two of them would fit into one."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.planning.cost.gradient_buckets import buckets

SIZES = st.lists(st.integers(0, 50), max_size=30)


@given(SIZES, st.integers(1, 60))
def test_every_tensor_is_in_one_bucket_which_is_within_the_limit_or_holds_it_alone(sizes: list[int], limit: int) -> None:
    messages = buckets(sizes, limit)
    assert sorted(itertools.chain(*messages)) == list(range(len(sizes)))
    assert all(len(message) == 1 or sum(sizes[index] for index in message) <= limit for message in messages)


@given(SIZES, st.integers(1, 60))
def test_small_tensors_keep_their_order_and_a_bucket_ends_only_where_the_next_one_does_not_fit(sizes: list[int], limit: int) -> None:
    fused = [message for message in buckets(sizes, limit) if sizes[message[0]] <= limit]
    assert list(itertools.chain(*fused)) == [index for index, size in enumerate(sizes) if size <= limit]
    for before, after in itertools.pairwise(fused):
        assert sum(sizes[index] for index in before) + sizes[after[0]] > limit


@given(SIZES)
def test_without_a_limit_above_zero_every_tensor_goes_alone(sizes: list[int]) -> None:
    messages = buckets([size + 1 for size in sizes], 0)
    assert messages == [[index] for index in range(len(sizes))]
