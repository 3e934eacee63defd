"""Attention on slices: the numbers of one processor, and nothing computed where there are no channels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from hetero_mtf.mesh.operations import attention, elementwise
from tests.mesh.running import implementation, run, shape, with_gradients

CHANNELS = 6
DIMENSIONS = [{"batch": 2, "positions": 5, "c": CHANNELS}, {"batch": 2, "keys": 4, "c": CHANNELS}, {"batch": 2, "keys": 4, "c": CHANNELS}]


def attended(_: Any, query: Any, key: Any, value: Any) -> list[Any]:
    return [attention.mean(elementwise.softmax(attention.scores(query, key), [value]), value)]


def values() -> list[tuple[np.ndarray, Any]]:
    rng = np.random.default_rng(3)
    return [(rng.normal(size=list(dims.values())), shape(**dims)) for dims in DIMENSIONS]


@pytest.mark.fast("(6,)")
@pytest.mark.parametrize("sizes", [(6,), (5, 1), (4, 0, 2), (0, 6, 0)], ids=str)
def test_split_channels_give_one_processors_numbers_and_gradients(sizes: tuple[int, ...]) -> None:
    expected = run(with_gradients(attended), values(), implementation([("p", 1)], {}))
    found = run(with_gradients(attended), values(), implementation([("p", len(sizes))], {"c": "p"}, {"c": sizes}))
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.fast("(4, 2)-2")
@pytest.mark.parametrize(("sizes", "computed"), [((4, 2), 2), ((4, 0, 2), 2), ((0, 6, 0), 1)], ids=str)
def test_a_processor_without_channels_computes_no_softmax(sizes: tuple[int, ...], computed: int) -> None:
    graphs = []

    def build(mesh: Any, *tensors: Any) -> Any:
        graphs.append(tf.compat.v1.get_default_graph())
        return with_gradients(attended)(mesh, *tensors)

    run(build, values(), implementation([("p", len(sizes))], {"c": "p"}, {"c": sizes}))
    assert sum(operation.type == "Softmax" for operation in graphs[0].get_operations()) == computed
