"""Collectives: the right sums and pieces, the same bits everywhere, for any number of processors and elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from hetero_mtf.mesh import collectives

COUNTS = (1, 2, 3, 4, 5)


def _run(function: Any, arrays: Sequence[np.ndarray], *arguments: Any) -> list[np.ndarray]:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tensors = [tf.constant(array) for array in arrays]
        found: list[np.ndarray] = session.run(function(tensors, ["/device:CPU:0"] * len(arrays), *arguments))
        return found


def _arrays(count: int, shape: Sequence[int], dtype: str = "float32") -> list[np.ndarray]:
    rng = np.random.default_rng(count)
    return [rng.normal(size=shape).astype(dtype) for _ in range(count)]


@pytest.mark.parametrize("count", COUNTS)
def test_an_all_reduce_gives_the_sum_with_equal_bits_on_all_processors(count: int) -> None:
    for shape in [(0,), (1,), (count - 1,), (count,), (1000,), (5000,), (1023,), (1024,), (40, 50), (3, 0, 2), ()]:
        arrays = _arrays(count, shape)
        found = _run(collectives.all_reduce, arrays)
        assert len(found) == count
        for result in found:
            assert result.shape == shape and result.dtype == np.float32
            assert result.tobytes() == found[0].tobytes()
        np.testing.assert_allclose(found[0], np.sum(arrays, 0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("count", COUNTS)
def test_an_all_reduce_may_take_the_maximum(count: int) -> None:
    for elements in (3, 2000):
        arrays = _arrays(count, (elements,))
        for result in _run(collectives.all_reduce, arrays, tf.maximum):
            np.testing.assert_array_equal(result, np.max(arrays, 0))


@pytest.mark.parametrize("elements, count", [(0, 3), (1, 3), (10, 3), (9, 3), (2, 5), (5000, 4)])
def test_chunks_sum_to_the_elements_and_differ_by_at_most_one(elements: int, count: int) -> None:
    sizes = collectives.chunk_sizes(elements, count)
    assert sum(sizes) == elements and len(sizes) == count and max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("sizes", [(5,), (2, 3), (4, 0, 1), (0, 5, 0), (1, 1, 1, 2), (0, 0, 2, 3, 0)], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_a_reduce_scatter_gives_each_processor_its_piece_of_the_sum(sizes: tuple[int, ...], axis: int) -> None:
    shape = [4, 4]
    shape[axis] = 5
    arrays = _arrays(len(sizes), shape, "float64")
    expected = np.split(np.sum(arrays, 0), np.cumsum(sizes)[:-1], axis)
    for a, b in zip(expected, _run(collectives.reduce_scatter, arrays, axis, sizes), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("sizes", [(5,), (2, 3), (4, 0, 1), (0, 5, 0), (1, 1, 1, 2), (0, 0, 2, 3, 0)], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_an_all_gather_gives_everybody_the_whole(sizes: tuple[int, ...], axis: int) -> None:
    whole = _arrays(1, [5, 5])[0]
    for result in _run(collectives.all_gather, np.split(whole, np.cumsum(sizes)[:-1], axis), axis):
        np.testing.assert_array_equal(result, whole)
