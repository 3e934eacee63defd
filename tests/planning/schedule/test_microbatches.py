from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.schedule.microbatches import microbatch_sizes


@given(st.integers(1, 200), st.integers(1, 40))
def test_microbatches_sum_to_the_batch_differ_by_one_at_most_and_are_never_empty(batch_size: int, microbatches: int) -> None:
    sizes = microbatch_sizes(batch_size, microbatches)
    assert sum(sizes) == batch_size and len(sizes) == min(batch_size, microbatches)
    assert min(sizes) >= 1 and max(sizes) - min(sizes) <= 1 and list(sizes) == sorted(sizes, reverse=True)


@pytest.mark.parametrize("asked", [(0, 1), (1, 0), (-1, 2)])
def test_nothing_cannot_be_cut(asked: tuple[int, int]) -> None:
    message = f"a batch of {asked[0]} samples cannot be divided into {asked[1]} microbatches; use at least 1 of each"
    with pytest.raises(PlanError, match=message):
        microbatch_sizes(*asked)
