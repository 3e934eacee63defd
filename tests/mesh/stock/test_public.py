"""Every public operation of Mesh-TensorFlow gives, on unequal slices, the values of its own one-processor mesh."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from hetero_mtf.mesh.compat import mtf
from tests.mesh.running import implementation, stock_and_uneven
from tests.mesh.stock import arrangements, images  # noqa: F401 - they add their cases
from tests.mesh.stock.cases import CASES, Tensors

LAYOUTS = {
    "even": implementation([("p", 2)], {"c": "p"}, {"c": (3, 3)}),
    "with a zero": implementation([("p", 3)], {"c": "p"}, {"c": (4, 0, 2)}),
    "2x2": implementation([("q", 2), ("p", 2)], {"a": "q", "c": "p"}, {"a": (3, 1), "c": (2, 4)}),
}
MORE_LAYOUTS = {
    "one": implementation([("p", 1)], {"c": "p"}, {"c": (6,)}),
    "even in three": implementation([("p", 3)], {"c": "p"}),
    "the other dimension": implementation([("p", 2)], {"a": "p"}, {"a": (1, 3)}),
    "all on one": implementation([("p", 2)], {"a": "p"}, {"a": (0, 4)}),
    "3x2": implementation([("p", 3), ("q", 2)], {"a": "q", "c": "p"}, {"a": (3, 1), "c": (3, 0, 3)}),
    "2x3": implementation([("q", 2), ("p", 3)], {"a": "q", "c": "p"}, {"a": (0, 4), "c": (1, 5, 0)}),
}


def _with_gradients(mesh: Any, name: str) -> list[Any]:
    values = Tensors(mesh)
    outputs = list(CASES[name].build(mesh, values))
    floats = [y for y in outputs if y.dtype.is_floating]
    if not CASES[name].gradient or not floats:
        return outputs
    rng = np.random.default_rng(1)
    cotangents = [mtf.import_tf_tensor(mesh, tf.constant(rng.normal(size=y.shape.to_integer_list), y.dtype), y.shape) for y in floats]
    given = [tensor for tensor in values.used() if tensor.dtype.is_floating]
    return outputs + [g for g in mtf.gradients(floats, given, grad_ys=cotangents) if g is not None]


def _compare(name: str, layouts: dict[str, Any]) -> None:
    expected, found = stock_and_uneven(lambda mesh: _with_gradients(mesh, name), list(layouts.values()))
    for layout, arrays in zip(layouts, found):
        for array, reference in zip(arrays, expected, strict=True):
            assert array.dtype == reference.dtype and array.shape == reference.shape
            tolerance = 1e-12 if reference.dtype == np.float64 else 1e-6
            wide = reference.dtype if reference.dtype.name != "bfloat16" else np.float32  # which NumPy 1.26 does not compare
            np.testing.assert_allclose(array.astype(wide), reference.astype(wide), rtol=tolerance, atol=tolerance, err_msg=layout)


@pytest.mark.parametrize("name, layout", [(name, list(LAYOUTS)[i % len(LAYOUTS)]) for i, name in enumerate(CASES)], ids=str)
def test_an_operation_gives_what_one_processor_gives(name: str, layout: str) -> None:
    _compare(name, {layout: LAYOUTS[layout]})


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_an_operation_gives_what_one_processor_gives_on_every_layout(name: str) -> None:
    _compare(name, LAYOUTS | MORE_LAYOUTS)
