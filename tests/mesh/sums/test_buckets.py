"""Buckets give every element the sum that it has alone, in fewer messages."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from hetero_mtf.mesh.collectives import Collectives
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl
from hetero_mtf.mesh.sums.buckets import Buckets
from hetero_mtf.planning.layout.records import CollectiveRule
from tests.mesh.running import run, shape

DTYPE = tf.float32


def impl_of(sizes: tuple[int, ...], bucket_bytes: int, method: str = "", filters: tuple[int, ...] = ()) -> UnevenMeshImpl:
    rules = (CollectiveRule("all_reduce", method),) if method else ()
    axes = [("p", len(sizes)), *([("f", len(filters))] if filters else [])]
    layout = {"batch": "p", **({"c": "f"} if filters else {})}
    extents = {"batch": sizes, **({"c": filters} if filters else {})}
    devices = ["/device:CPU:0"] * (len(sizes) * max(1, len(filters)))
    return UnevenMeshImpl(axes, layout, devices, extents, Collectives(rules, (), bucket_bytes))


def arrays(count: int) -> list[tuple[np.ndarray, Any]]:
    rng = np.random.default_rng(0)
    return [(rng.normal(size=(6, 4, 3 + k)).astype("float32"), shape(batch=6, **{f"d{k}": 4}, c=3 + k)) for k in range(count)]


def sums(_: Any, *tensors: Any) -> list[Any]:
    totals = [mtf.reduce_sum(x, reduced_dim=x.shape.dims[0]) for x in tensors]
    return list(Buckets(totals, [DTYPE] * len(totals)).outputs)


def counted(impl: UnevenMeshImpl, inputs: list[tuple[np.ndarray, Any]], build: Any = sums) -> tuple[list[np.ndarray], int]:
    """Return the values, and how many all-reduces there were."""
    with mock.patch.object(UnevenMeshImpl, "allreduce", autospec=True, side_effect=UnevenMeshImpl.allreduce) as spied:
        values = run(build, inputs, impl)
    return values, spied.call_count


@pytest.mark.fast("(4, 2)-")
@pytest.mark.parametrize("method", ["", "exchange", "butterfly"])
@pytest.mark.parametrize("sizes", [(4, 2), (3, 0, 3), (2, 2, 1, 1)], ids=str)
def test_the_sums_of_a_bucket_are_bitwise_those_of_each_tensor_alone(sizes: tuple[int, ...], method: str) -> None:
    alone, many = counted(impl_of(sizes, 0, method), arrays(4))
    fused, one = counted(impl_of(sizes, 1000, method), arrays(4))
    assert (many, one) == (4, 1)
    assert all(np.array_equal(a, b) for a, b in zip(alone, fused))


@pytest.mark.fast("halving_doubling")
@pytest.mark.parametrize("method", ["ring", "halving_doubling"])
def test_a_ring_cuts_a_bucket_elsewhere_and_gives_the_sums_to_rounding(method: str) -> None:
    alone, _ = counted(impl_of((2, 1, 3), 0, method), arrays(4))
    fused, count = counted(impl_of((2, 1, 3), 1000, method), arrays(4))
    assert count == 1
    for a, b in zip(alone, fused):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_tensor_above_the_limit_goes_alone_and_a_full_bucket_is_followed_by_another() -> None:
    inputs = arrays(5)  # sums of 48, 64, 80, 96 and 112 bytes
    assert [counted(impl_of((4, 2), limit), inputs)[1] for limit in (47, 100, 112, 400)] == [5, 5, 4, 1]


def test_slices_along_another_mesh_axis_share_buckets_with_those_of_their_own_group() -> None:
    inputs = [(x[:, :, :3], shape(batch=6, **{f"d{k}": 4}, c=3)) for k, (x, _) in enumerate(arrays(3))]
    expected = [x.sum(0) for x, _ in inputs]
    for filters in ((2, 1), (3, 0)):
        values, count = counted(impl_of((4, 2), 1000, filters=filters), inputs)
        assert count == 1
        for a, b in zip(expected, values):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_what_is_not_pending_or_in_another_dtype_is_in_no_bucket_with_the_rest() -> None:
    def build(_: Any, first: Any, second: Any, third: Any) -> list[Any]:
        totals = [mtf.reduce_sum(x, reduced_dim=x.shape.dims[0]) for x in (first, second)]
        return list(Buckets([*totals, third], [tf.bfloat16, DTYPE, DTYPE]).outputs)

    inputs = [*arrays(2), (np.ones((2, 2), "float32"), shape(a=2, b=2))]
    (first, second, third), count = counted(impl_of((4, 2), 1000), inputs, build)
    assert count == 2 and np.array_equal(third, np.ones((2, 2)))
    np.testing.assert_allclose(second, inputs[1][0].sum(0), rtol=1e-5, atol=1e-6)
    assert first.dtype == np.float32
    np.testing.assert_allclose(first, inputs[0][0].sum(0), rtol=0.05, atol=0.05)
    assert not np.array_equal(first, inputs[0][0].sum(0))
