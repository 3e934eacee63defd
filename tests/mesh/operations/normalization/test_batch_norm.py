"""Batch norm over a batch on several processors, by fused kernels and by elementary operations, gives one processor's numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.operations.normalization import batch_norm as norm
from hetero_mtf.mesh.operations.normalization.split_batch_norm import normalize_split_batch
from tests.mesh.running import implementation, run, shape, with_gradients

EXTENTS = {"batch": 6, "space0": 5, "space1": 4, "c": 3}
FLAT = {"batch": 6, "c": 3}


def values(extents: dict[str, int], dtype: str) -> list[tuple[np.ndarray, Any]]:
    rng = np.random.default_rng(0)
    dims = [extents, {"c": 3}, {"c": 3}]
    offsets = (3.0, 0.0, 0.0)  # a mean that is large against the spread shows cancellation
    return [(rng.normal(offset, 1, list(d.values())).astype(dtype), shape(**d)) for d, offset in zip(dims, offsets)]


def spread(samples: Sequence[int], outputs: slice) -> Callable[..., Sequence[Any]]:
    def build(_: Any, x: Any, gamma: Any, beta: Any) -> Sequence[Any]:
        parts = mtf.Dimension("parts", len(samples))
        return normalize_split_batch(x, gamma, beta, 1e-3, [parts], [samples])[outputs]

    return build


def laid_out(samples: Sequence[int]) -> Any:
    layout = {"batch": "p", "parts": "p"}
    return implementation([("p", len(samples))], layout, {"batch": samples, "parts": (1,) * len(samples)})


@pytest.mark.fast("float32-0.0001-image-(6,)")
@pytest.mark.parametrize("samples", [(6,), (4, 2), (3, 0, 2, 1), (0, 6)], ids=str)
@pytest.mark.parametrize("extents", [EXTENTS, FLAT], ids=["image", "vector"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-10), ("float32", 1e-4)])
def test_a_split_batch_is_normalised_as_a_whole_one(
    dtype: str, tolerance: float, extents: dict[str, int], samples: tuple[int, ...]
) -> None:
    whole = with_gradients(lambda _, *tensors: norm.normalize_batch(*tensors, 1e-3)[:1])
    statistics = lambda _, *tensors: norm.normalize_batch(*tensors, 1e-3)[1:]  # noqa: E731
    pairs = [(whole, with_gradients(spread(samples, slice(1)))), (statistics, spread(samples, slice(1, 3)))]
    for one, several in pairs:
        expected = run(one, values(extents, "float64"), implementation([("p", 1)], {}))
        found = run(several, values(extents, dtype), laid_out(samples))
        assert len(expected) == len(found)
        for a, b in zip(expected, found):
            assert b.dtype == dtype
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def test_one_value_a_channel_has_no_spread() -> None:
    x = [(np.full((1, 1, 1, 3), 2.0, "float32"), shape(batch=1, space0=1, space1=1, c=3)), *values(EXTENTS, "float32")[1:]]
    _, mean, variance = run(spread((1, 0), slice(3)), x, laid_out((1, 0)))
    np.testing.assert_array_equal(mean, [2.0] * 3)
    np.testing.assert_array_equal(variance, [0.0] * 3)


def test_the_statistics_reach_every_processor() -> None:
    means, variances = run(spread((4, 0, 2), slice(1, 3)), values(EXTENTS, "float32"), laid_out((4, 0, 2)), slices=True)
    for slices in (means, variances):
        assert len(slices) == 3
        assert all(np.array_equal(slices[0], piece) for piece in slices)
