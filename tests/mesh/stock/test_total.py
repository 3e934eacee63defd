"""Sums that are owed are added up before they are reduced."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl
from tests.mesh.running import implementation, run, shape


def _products(_: Any, a: Any, b: Any, c: Any) -> list[Any]:
    """Return a b + a c + a b again, products that are summed over a laid-out dimension."""
    rows = mtf.Dimension("i", 2)
    total = mtf.einsum([a, b], [rows]) + mtf.einsum([a, c], [rows])
    return [total + mtf.einsum([b, a], [rows])]


@pytest.mark.fast("(5, 2)")
@pytest.mark.parametrize("sizes", [(5, 2), (3, 0, 4), (1, 2, 2, 2)], ids=str)
def test_three_sums_over_one_axis_take_one_all_reduce_and_keep_their_value(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(2, 7)), rng.normal(size=7), rng.normal(size=7)
    impl = implementation([("p", len(sizes))], {"k": "p"}, {"k": sizes})
    with mock.patch.object(UnevenMeshImpl, "allreduce", autospec=True, side_effect=UnevenMeshImpl.allreduce) as spied:
        found = run(_products, [(a, shape(i=2, k=7)), (b, shape(k=7)), (c, shape(k=7))], impl)[0]
    assert spied.call_count == 1
    assert np.abs(found - a @ (2 * b + c)).max() < 1e-12


def test_sums_over_different_axes_and_whole_values_are_added_as_ever() -> None:
    rng = np.random.default_rng(1)
    a, b, c = rng.normal(size=(3, 4)), rng.normal(size=(3, 5)), rng.normal(size=3)
    impl = implementation([("p", 2), ("q", 2)], {"k": "p", "j": "q"}, {"k": (3, 1), "j": (1, 4)})
    rows = mtf.Dimension("i", 3)

    def build(_: Any, x: Any, y: Any, z: Any) -> list[Any]:
        return [mtf.reduce_sum(x, output_shape=[rows]) + mtf.reduce_sum(y, output_shape=[rows]) + z]

    found = run(build, [(a, shape(i=3, k=4)), (b, shape(i=3, j=5)), (c, shape(i=3))], impl)[0]
    assert np.abs(found - (a.sum(1) + b.sum(1) + c)).max() < 1e-12
