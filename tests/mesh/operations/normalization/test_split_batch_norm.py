"""Tensors whose synchronisations are merged are normalised as each by itself, with one gather and one all-reduce for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl
from hetero_mtf.mesh.operations.normalization.split_batch_norm import SplitNorm, normalize_split_batch, normalize_split_batches
from tests.mesh.running import implementation, run, shape, with_gradients

EXTENTS = ({"batch": 6, "s0": 5, "s1": 4, "c": 3}, {"batch": 6, "t0": 2, "t1": 2, "d": 5}, {"batch": 6, "e": 2})

TOLERANCE = {"float64": 1e-10, "float32": 1e-4}


def values(dtype: str) -> list[tuple[np.ndarray, Any]]:
    rng, made = np.random.default_rng(0), []
    for extents in EXTENTS:
        channels = dict([list(extents.items())[-1]])
        made += [(rng.normal(1.0, 1, list(d.values())).astype(dtype), shape(**d)) for d in (extents, channels, channels)]
    return made


def apart(samples: Sequence[int]) -> Any:
    def build(_: Any, *tensors: Any) -> list[Any]:
        parts = mtf.Dimension("parts", len(samples))
        return [normalize_split_batch(*tensors[k : k + 3], 1e-3, [parts], [samples])[0] for k in (0, 3, 6)]

    return build


def together(samples: Sequence[int]) -> Any:
    def build(_: Any, *tensors: Any) -> list[Any]:
        norms = [SplitNorm(*tensors[k : k + 3], 1e-3, f"layer{k}") for k in (0, 3, 6)]
        return [y for y, _, _ in normalize_split_batches(norms, mtf.Dimension("parts", len(samples)), samples)]

    return build


@pytest.mark.slow
@pytest.mark.fast("float32-(4, 2)")
@pytest.mark.parametrize("samples", [(4, 2), (3, 0, 3), (2, 2, 1, 1)], ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_outputs_and_gradients_are_those_of_each_by_itself(dtype: str, samples: tuple[int, ...]) -> None:
    impl = implementation([("p", len(samples))], {"batch": "p", "parts": "p"}, {"batch": samples, "parts": (1,) * len(samples)})
    found = []
    for build in (apart(samples), together(samples)):
        with (
            mock.patch.object(UnevenMeshImpl, "allreduce", autospec=True, side_effect=UnevenMeshImpl.allreduce) as reduced,
            mock.patch.object(UnevenMeshImpl, "allconcat", autospec=True, side_effect=UnevenMeshImpl.allconcat) as gathered,
        ):
            arrays = run(with_gradients(build), values(dtype), impl)
        found.append((arrays, reduced.call_count, gathered.call_count))
    (one, reduced_apart, gathered_apart), (several, reduced_together, gathered_together) = found
    assert len(one) == len(several)
    for a, b in zip(one, several):
        np.testing.assert_allclose(a, b, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    assert gathered_apart - gathered_together == reduced_apart - reduced_together == 2


def test_an_output_that_no_loss_depends_on_has_no_gradient() -> None:
    impl = implementation([("p", 2)], {"batch": "p", "parts": "p"}, {"batch": (4, 2), "parts": (1, 1)})

    def build(_: Any, *tensors: Any) -> list[Any]:
        norms = [SplitNorm(*tensors[k : k + 3], 1e-3) for k in (0, 3, 6)]
        ys = [y for y, _, _ in normalize_split_batches(norms, mtf.Dimension("parts", 2), (4, 2))]
        return list(mtf.gradients([mtf.reduce_sum(mtf.square(ys[1]))], [tensors[3], tensors[4]]))

    def alone(_: Any, *tensors: Any) -> list[Any]:
        y = normalize_split_batch(*tensors[3:6], 1e-3, [mtf.Dimension("parts", 2)], [(4, 2)])[0]
        return list(mtf.gradients([mtf.reduce_sum(mtf.square(y))], [tensors[3], tensors[4]]))

    for a, b in zip(run(build, values("float64"), impl), run(alone, values("float64"), impl)):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
