"""Outputs follow from what they read, and slabs of the output from slabs of the input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.layers.reach import Reach, same_padding

REACHES = st.builds(Reach, st.integers(1, 5), st.integers(1, 4), st.integers(-2, 3), st.booleans())


def outputs(reach: Reach, x: np.ndarray, begin: int, end: int, first: int) -> np.ndarray:
    """Return the outputs [begin, end) of a window of random taps, of inputs of which the first one is `first`; others are 0."""
    taps = np.random.default_rng(0).normal(size=reach.window)
    y = np.zeros(end - begin)
    for at in range(begin, end):
        for i, value in enumerate(x, first):
            tap = at - (i * reach.stride - reach.before) if reach.transposed else i - (at * reach.stride - reach.before)
            y[at - begin] += value * taps[tap] if 0 <= tap < reach.window else 0.0
    return y


@given(REACHES, st.integers(1, 9), st.integers(-1, 6), st.integers(0, 6))
def test_outputs_are_those_of_what_they_read(reach: Reach, extent: int, begin: int, length: int) -> None:
    x = np.random.default_rng(1).normal(size=extent)
    first, last = reach.reads(begin, begin + length)
    part = np.array([x[i] if 0 <= i < extent else 0.0 for i in range(first, last)])
    wanted = outputs(reach, x, begin, begin + length, 0)
    np.testing.assert_allclose(outputs(reach, part, begin, begin + length, first), wanted, atol=1e-12)
    if length and not reach.transposed:
        assert last - first == (length - 1) * reach.stride + reach.window


@given(REACHES, st.lists(st.integers(0, 5), min_size=1))
def test_slabs_of_the_output_sum_to_it_and_are_empty_where_there_is_no_input_at_an_end(reach: Reach, sizes: list[int]) -> None:
    total = sum(sizes)
    size = total * reach.stride if reach.transposed else -(-total // reach.stride)
    slabs = reach.slabs(sizes, size)
    assert len(slabs) == len(sizes) and sum(slabs) == size and min(slabs) >= 0
    for inputs, outs in ((sizes, slabs), (sizes[::-1], slabs[::-1])):
        held = next((at for at, extent in enumerate(inputs) if extent), 0)
        assert not any(outs[:held])


@pytest.mark.parametrize(
    "reach, sizes, size, slabs",
    [
        pytest.param(Reach(3, 1, 1), (5, 3, 2), 10, (5, 3, 2), id="same"),
        pytest.param(Reach(3, 1, 0), (5, 3, 2), 8, (4, 3, 1), id="valid"),
        pytest.param(Reach(3, 2, 0), (6, 4), 5, (3, 2), id="stride"),
        pytest.param(Reach(2, 2, 0), (4, 0, 6), 5, (2, 0, 3), id="pool"),
        pytest.param(Reach(2, 2, 0, True), (3, 2), 10, (6, 4), id="transposed"),
        pytest.param(Reach(1, 1, 2), (4, 6), 14, (6, 8), id="padded"),
        pytest.param(Reach(1, 1, -3), (4, 6), 5, (1, 4), id="cropped"),
        pytest.param(Reach(1, 1, 2), (10, 0), 14, (14, 0), id="padded, with nothing on the last one"),
    ],
)
def test_slabs_keep_windows_together(reach: Reach, sizes: tuple[int, ...], size: int, slabs: tuple[int, ...]) -> None:
    assert reach.slabs(sizes, size) == slabs


@given(st.integers(1, 20), st.integers(1, 6), st.integers(1, 4))
def test_same_padding_is_that_of_tensorflow(size: int, window: int, stride: int) -> None:
    count = -(-size // stride)
    before, read = same_padding(size, window, stride), (count - 1) * stride + window
    assert 0 <= before <= max(read - size, 0) - before <= before + 1 or read <= size
