"""Where shifted elements come from."""

from __future__ import annotations

import hypothesis
import numpy as np
from hypothesis import strategies as st

from hetero_mtf.mesh.stock.shift import runs


@hypothesis.given(st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(any), st.integers(-12, 12), st.booleans(), st.data())
def test_the_runs_of_a_window_are_the_shifted_elements(sizes: list[int], offset: int, wrap: bool, data: st.DataObject) -> None:
    whole = np.arange(1, sum(sizes) + 1)
    pieces = np.split(whole, np.cumsum(sizes)[:-1])
    begin = data.draw(st.integers(0, len(whole)))
    length = data.draw(st.integers(0, len(whole) - begin))
    found = [np.zeros(n, int) if owner is None else pieces[owner][b : b + n] for owner, b, n in runs(begin, length, offset, sizes, wrap)]
    shifted = np.roll(whole, offset)
    if not wrap:
        shifted = np.array([whole[i - offset] if 0 <= i - offset < len(whole) else 0 for i in range(len(whole))])
    np.testing.assert_array_equal(np.concatenate([[], *found]), shifted[begin : begin + length])
    assert all(len(piece) for piece in found)
