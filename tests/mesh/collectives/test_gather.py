"""Gather, scatter and all-to-all: the right pieces, empty ones included, in one round, and no empty piece sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from hetero_mtf.mesh import collectives
from tests.cases import examples
from tests.mesh.crossings import Crossings, crossings

CUTS = [(5,), (2, 3), (4, 0, 1), (0, 5, 0), (1, 1, 1, 2), (0, 0, 2, 3, 0)]


def run(function: Any, arrays: Sequence[np.ndarray], *arguments: Any) -> list[np.ndarray]:
    count = len(arrays)
    config = tf.compat.v1.ConfigProto(device_count={"CPU": count}, allow_soft_placement=False)
    with tf.Graph().as_default(), tf.compat.v1.Session(config=config) as session:
        results = placed(function, arrays, [f"/device:CPU:{p}" for p in range(count)], *arguments)
        found: list[np.ndarray] = session.run(results)
        assert [list(a.shape) for a in found] == [result.shape.as_list() for result in results]
        return found


def counted(function: Any, arrays: Sequence[np.ndarray], *arguments: Any) -> Crossings:
    with tf.Graph().as_default() as graph:
        placed(function, arrays, [f"/job:worker/task:{p}/device:CPU:0" for p in range(len(arrays))], *arguments)
        return crossings(graph)


def placed(function: Any, arrays: Sequence[np.ndarray], devices: Sequence[str], *arguments: Any) -> list[tf.Tensor]:
    tensors = []
    for device, array in zip(devices, arrays):
        with tf.device(device):
            tensors.append(tf.constant(array))
    results: list[tf.Tensor] = function(tensors, devices, *arguments)
    assert [tf.DeviceSpec.from_string(result.device) for result in results] == [tf.DeviceSpec.from_string(device) for device in devices]
    return results


def split(whole: np.ndarray, sizes: Sequence[int], axis: int) -> list[np.ndarray]:
    return np.split(whole, np.cumsum(sizes)[:-1], axis)


def shape_with(axis: int, extent: int) -> list[int]:
    shape = [4, 4]
    shape[axis] = extent
    return shape


@pytest.mark.parametrize("sizes", CUTS, ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_a_reduce_scatter_gives_each_processor_its_piece_of_the_sum(sizes: tuple[int, ...], axis: int) -> None:
    arrays = [np.random.default_rng(p).normal(size=shape_with(axis, 5)) for p in range(len(sizes))]
    for expected, found in zip(split(np.sum(arrays, 0), sizes, axis), run(collectives.reduce_scatter, arrays, axis, sizes), strict=True):
        assert expected.shape == found.shape
        np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize("sizes", CUTS, ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_an_all_gather_gives_everybody_the_whole(sizes: tuple[int, ...], axis: int) -> None:
    whole = np.random.default_rng(0).normal(size=[5, 5])
    for found in run(collectives.all_gather, split(whole, sizes, axis), axis):
        np.testing.assert_array_equal(found, whole)


@hypothesis.given(st.data())
@examples(10, 30)
def test_an_all_to_all_moves_slices_from_one_axis_to_another(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 5))
    before, after = (data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)) for _ in range(2))
    split_axis, concat_axis = data.draw(st.permutations(range(3)))[:2]
    shape = [2, 2, 2]
    shape[split_axis], shape[concat_axis] = sum(after), sum(before)
    whole = np.arange(np.prod(shape, dtype=int), dtype="float64").reshape(shape)
    found = run(collectives.all_to_all, split(whole, before, concat_axis), split_axis, concat_axis, after)
    for expected, piece in zip(split(whole, after, split_axis), found, strict=True):
        np.testing.assert_array_equal(piece, expected)


@pytest.mark.parametrize("sizes", CUTS, ids=str)
def test_a_reduce_scatter_sends_every_piece_to_its_owner_and_no_empty_one(sizes: tuple[int, ...]) -> None:
    found = counted(collectives.reduce_scatter, [np.ones([4, 5])] * len(sizes), 1, sizes)
    assert found.sent_bytes == {
        (f"/job:worker/task:{p}/device:CPU:0", f"/job:worker/task:{q}/device:CPU:0"): 8 * 4 * size
        for p in range(len(sizes))
        for q, size in enumerate(sizes)
        if p != q and size
    }
    assert found.rounds == min(1, len(found.sent_bytes))


@pytest.mark.parametrize("sizes", CUTS, ids=str)
def test_an_all_gather_sends_every_slice_to_everybody_and_no_empty_one(sizes: tuple[int, ...]) -> None:
    found = counted(collectives.all_gather, split(np.ones([4, 5]), sizes, 1), 1)
    assert len(found.sent_bytes) == sum(1 for size in sizes if size) * (len(sizes) - 1)
    assert found.full_bytes == 8 * 4 * 5 * (len(sizes) - 1) and found.rounds == min(1, len(found.sent_bytes))


@pytest.mark.parametrize("before", CUTS[1:4], ids=str)
def test_an_all_to_all_sends_what_changes_its_place_and_no_empty_piece(before: tuple[int, ...]) -> None:
    after = tuple(reversed(before))
    found = counted(collectives.all_to_all, split(np.ones([5, 5]), before, 0), 1, 0, after)
    kept = sum(a * b for a, b in zip(before, after))
    assert found.full_bytes == 8 * (25 - kept) and not found.empty
    assert found.rounds == min(1, len(found.sent_bytes))


def test_where_all_slices_are_empty_nothing_is_sent() -> None:
    empty = [np.ones([3, 0])] * 3
    for arguments in ((collectives.all_gather, empty, 1), (collectives.reduce_scatter, empty, 1, (0, 0, 0))):
        assert counted(*arguments).full_bytes == 0
        assert all(found.shape == (3, 0) for found in run(*arguments))
