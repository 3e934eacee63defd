"""Every operation and its gradients: unequal slices, empty ones included, give what one processor gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.operations import elementwise, pool
from hetero_mtf.mesh.operations.compute import compute
from hetero_mtf.mesh.operations.convolution import conv, depthwise
from hetero_mtf.mesh.operations.normalization import batch_norm as norm
from tests.mesh.running import implementation, run, shape, with_gradients

X = {"batch": 2, "space0": 5, "space1": 4}


@dataclasses.dataclass(frozen=True)
class Case:
    """An operation, its inputs' dimensions, and the dimension of 6 that is split."""

    build: Callable[..., Any]
    inputs: Sequence[dict[str, int]]
    split: str = "c"


def _conv(
    strides: tuple[int, ...] = (1, 1), padding: str = "SAME", dilation: tuple[int, ...] = (1, 1, 1), groups: int = 1
) -> Callable[..., Any]:
    def build(_: Any, x: Any, k: Any) -> Any:
        sides = zip(x.shape.dims[1:-1], k.shape.dims, strides, dilation)
        extents = [-(-n.size // s) if padding == "SAME" else -(-(n.size - (t.size - 1) * d) // s) for n, t, s, d in sides]
        return conv.convolve(x, k, extents, strides, padding, dilation[: len(strides)], groups)

    return build


def _transposed(_: Any, x: Any, k: Any) -> Any:
    extents = [2 * d.size for d in x.shape.dims[1:-1]]
    return conv.convolve_transposed(x, k, extents, [2] * len(extents), "same", None)


def _depthwise(strides: tuple[int, int] = (1, 1), dilation: tuple[int, int] = (1, 1)) -> Callable[..., Any]:
    def build(_: Any, x: Any, k: Any) -> Any:
        extents = [-(-d.size // s) for d, s in zip(x.shape.dims[1:-1], strides)]
        return depthwise.convolve_depthwise(x, k, extents, strides, "same", dilation, "deep")

    return build


def _compute(function: Callable[..., Any], *, lacks: tuple[str, ...] = (), whole: tuple[str, ...] = ()) -> Callable[..., Any]:
    """Return what builds a function in the shape of the first input, but for some dimensions."""

    def build(_: Any, *tensors: Any) -> Any:
        output = mtf.Shape([d for d in tensors[0].shape.dims if d.name not in lacks])
        return compute("function", function, tensors, output, unsplit=[d for d in tensors[0].shape.dims if d.name in whole])

    return build


KERNEL = {"tap0": 3, "tap1": 2}
V, CUBE = {**X, "space2": 3}, {**KERNEL, "tap2": 2}
CASES: dict[str, Case] = {
    "convolution, columns": Case(_conv(), [{**X, "i": 3}, {**KERNEL, "i": 3, "c": 6}]),
    "convolution, rows": Case(_conv(), [{**X, "c": 6}, {**KERNEL, "c": 6, "o": 3}]),
    "convolution, columns, strides": Case(_conv((2, 2)), [{**X, "i": 3}, {**KERNEL, "i": 3, "c": 6}]),
    "convolution, rows, valid, strides": Case(_conv((2, 1), "VALID"), [{**X, "c": 6}, {**KERNEL, "c": 6, "o": 3}]),
    "convolution, batch": Case(_conv(), [{**X, "batch": 6, "i": 3}, {**KERNEL, "i": 3, "o": 2}], "batch"),
    "convolution, columns, dilated": Case(_conv(dilation=(2, 1)), [{**X, "i": 3}, {**KERNEL, "i": 3, "c": 6}]),
    "convolution, rows, dilated": Case(_conv(dilation=(1, 2), padding="VALID"), [{**X, "c": 6}, {**KERNEL, "c": 6, "o": 3}]),
    "convolution, batch, groups": Case(_conv((2, 1), groups=2), [{**X, "batch": 6, "i": 4}, {**KERNEL, "g": 2, "o": 6}], "batch"),
    "convolution, batch, groups, dilated": Case(
        _conv(dilation=(1, 2), groups=2), [{**X, "batch": 6, "i": 4}, {**KERNEL, "g": 2, "o": 6}], "batch"
    ),
    "3-D convolution, columns": Case(_conv((1, 2, 1)), [{**V, "i": 3}, {**CUBE, "i": 3, "c": 6}]),
    "3-D convolution, rows": Case(_conv((2, 1, 1), "VALID"), [{**V, "c": 6}, {**CUBE, "c": 6, "o": 3}]),
    "3-D convolution, rows, dilated": Case(_conv((1, 1, 1), dilation=(1, 2, 1)), [{**V, "c": 6}, {**CUBE, "c": 6, "o": 3}]),
    "3-D convolution, batch": Case(_conv((1, 1, 1)), [{**V, "batch": 6, "i": 2}, {**CUBE, "i": 2, "o": 3}], "batch"),
    "transposed convolution, columns": Case(_transposed, [{**X, "i": 3}, {**KERNEL, "c": 6, "i": 3}]),
    "transposed convolution, rows": Case(_transposed, [{**X, "c": 6}, {**KERNEL, "o": 2, "c": 6}]),
    "transposed convolution, batch": Case(_transposed, [{**X, "batch": 6, "i": 3}, {**KERNEL, "o": 2, "i": 3}], "batch"),
    "3-D transposed convolution, columns": Case(_transposed, [{**V, "i": 3}, {**CUBE, "c": 6, "i": 3}]),
    "3-D transposed convolution, rows": Case(_transposed, [{**V, "c": 6}, {**CUBE, "o": 2, "c": 6}]),
    "depthwise": Case(_depthwise((2, 2)), [{**X, "c": 6}, {**KERNEL, "c": 6, "m": 1}]),
    "depthwise, dilated": Case(_depthwise(dilation=(2, 1)), [{**X, "c": 6}, {**KERNEL, "c": 6, "m": 1}]),
    "depthwise, dilated and strided": Case(_depthwise((2, 2), (2, 1)), [{**X, "c": 6}, {**KERNEL, "c": 6, "m": 1}]),
    "depthwise, batch, multiplier": Case(_depthwise(), [{**X, "batch": 6, "i": 2}, {**KERNEL, "i": 2, "m": 3}], "batch"),
    "function, a number a channel": Case(_compute(lambda x, a: tf.sin(x) * a), [{**X, "c": 6}, {"c": 6}]),
    "function, a number for all": Case(_compute(lambda x, a: tf.sin(x * a[0])), [{**X, "c": 6}, {"one": 1}]),
    "function, a number a place, batch": Case(_compute(lambda x, a: tf.sin(x) * a), [{**X, "batch": 6}, {"space1": 4}], "batch"),
    "function, sum of channels": Case(_compute(lambda x, a: tf.reduce_sum(tf.sin(x) * a, -1), lacks=("c",)), [{**X, "c": 6}, {"c": 6}]),
    "function, maximum over space": Case(
        _compute(lambda x: tf.reduce_max(x, [1, 2]), lacks=("space0", "space1"), whole=("space0", "space1")), [{**X, "c": 6}]
    ),
    "function, of one tensor twice": Case(lambda m, x: _compute(lambda a, b: a * tf.exp(b))(m, x, x), [{**X, "c": 6}]),
    "function that ignores an input": Case(_compute(lambda x, a: tf.sin(x)), [{**X, "c": 6}, {"c": 6}]),
    "matrix, columns": Case(lambda _, x, k: conv.multiply_matrix(x, k), [{"batch": 2, "i": 3}, {"i": 3, "c": 6}]),
    "matrix, rows": Case(lambda _, x, k: conv.multiply_matrix(x, k), [{"batch": 2, "c": 6}, {"c": 6, "o": 3}]),
    "matrix, rows behind a flatten": Case(
        lambda _, x, k: conv.multiply_matrix(x, k), [{**X, "c": 6}, {"space0": 5, "space1": 4, "c": 6, "o": 3}]
    ),
    "matrix on images": Case(lambda _, x, k: conv.multiply_matrix(x, k), [{**X, "i": 3}, {"i": 3, "c": 6}]),
    "matrix, batch": Case(lambda _, x, k: conv.multiply_matrix(x, k), [{"batch": 6, "i": 3}, {"i": 3, "o": 2}], "batch"),
    "bias": Case(lambda _, x, b: conv.add_bias(x, b), [{**X, "c": 6}, {"c": 6}]),
    "bias, batch": Case(lambda _, x, b: conv.add_bias(x, b), [{"batch": 6, "o": 3}, {"o": 3}], "batch"),
    "batch norm": Case(lambda _, x, g, b: norm.normalize_batch(x, g, b, 1e-3)[0], [{**X, "c": 6}, {"c": 6}, {"c": 6}]),
    "batch norm by given statistics": Case(
        lambda _, x, g, b, m: norm.normalize_by(x, g, b, m, mtf.square(m), 1e-3), [{**X, "c": 6}, {"c": 6}, {"c": 6}, {"c": 6}]
    ),
    "maximum pool": Case(lambda _, x: pool.pool(x, "max", (2, 2), (2, 2), "VALID"), [{**X, "c": 6}]),
    "maximum pool, overlapping": Case(lambda _, x: pool.pool(x, "max", (3, 2), (2, 1), "SAME"), [{**X, "c": 6}]),
    "mean pool, overlapping": Case(lambda _, x: pool.pool(x, "average", (3, 3), (2, 2), "SAME"), [{**X, "c": 6}]),
    "3-D maximum pool": Case(lambda _, x: pool.pool(x, "max", (2, 2, 2), (2, 1, 1), "SAME"), [{**V, "c": 6}]),
    "3-D mean pool": Case(lambda _, x: pool.pool(x, "average", (3, 2, 2), (1, 2, 1), "SAME"), [{**V, "c": 6}]),
    "repetition": Case(
        lambda _, x: compute("repeat", pool.repeated((2, 3)), [x], shape(batch=2, space0=10, space1=12, c=6)), [{**X, "c": 6}]
    ),
    "mean over space": Case(lambda _, x: pool.mean_over_space(x), [{**X, "c": 6}]),
    "padding": Case(lambda _, x: pool.pad_space(x, [(1, 2), (0, 3)]), [{**X, "c": 6}]),
    "concatenation, batch": Case(
        lambda _, x, y: pool.concatenate([x, y, x], mtf.Dimension("both", 8)), [{"batch": 6, "a": 3}, {"batch": 6, "b": 2}], "batch"
    ),
    "softmax, batch": Case(lambda _, x: elementwise.softmax(x), [{"batch": 6, "o": 4}], "batch"),
    "dropout of whole channels": Case(lambda _, x: elementwise.drop(x, 0.4, tf.constant([3, 4]), x.shape.dims[1:3]), [{**X, "c": 6}]),
    "dropout of whole samples": Case(
        lambda _, x: elementwise.drop(x, 0.4, tf.constant([3, 4]), x.shape.dims[1:]), [{**X, "batch": 6, "o": 2}], "batch"
    ),
    "dropout": Case(lambda _, x: elementwise.drop(x, 0.4, tf.constant([3, 4])), [{**X, "c": 6}]),
    **{
        name: Case(lambda _, x, name=name: elementwise.activate(x, name), [{**X, "c": 6}])
        for name in ("linear", *elementwise._BY_OUTPUT, *elementwise._BY_INPUT)
    },
    "sum of rows, then activation": Case(
        lambda _, x, k: elementwise.activate(conv.multiply_matrix(x, k), "tanh"), [{"batch": 2, "c": 6}, {"c": 6, "o": 3}]
    ),
}


def _values(case: Case, dtype: str) -> list[tuple[np.ndarray, Any]]:
    rng = np.random.default_rng(1)
    return [(rng.normal(size=list(dims.values())).astype(dtype), shape(**dims)) for dims in case.inputs]


@pytest.mark.fast("3-D transposed convolution, columns-(6,)", "convolution, batch, groups-(6,)", "linear-(6,)")
@pytest.mark.parametrize("sizes", [(6,), (5, 1), (3, 2, 1), (4, 0, 2), (0, 6, 0)], ids=str)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_operation_and_its_gradients_do_not_depend_on_the_slices(case: Case, sizes: tuple[int, ...]) -> None:
    build = with_gradients(lambda mesh, *tensors: [case.build(mesh, *tensors)])
    expected = run(build, _values(case, "float64"), implementation([("p", 1)], {}))
    found = run(build, _values(case, "float64"), implementation([("p", len(sizes))], {case.split: "p"}, {case.split: sizes}))
    assert len(expected) == len(found) >= len(case.inputs)
    for a, b in zip(expected, found):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_the_fused_batch_norm_gives_what_the_explicit_one_gives() -> None:
    case = CASES["batch norm"]
    build = with_gradients(lambda mesh, *tensors: norm.normalize_batch(*tensors, 1e-3)[:1])
    statistics = lambda mesh, *tensors: norm.normalize_batch(*tensors, 1e-3)[1:]  # noqa: E731
    impl = lambda: implementation([("p", 3)], {"c": "p"}, {"c": (4, 0, 2)})  # noqa: E731
    for make in (build, statistics):
        explicit, fused = (run(make, _values(case, dtype), impl()) for dtype in ("float64", "float32"))
        for a, b in zip(explicit, fused):
            assert (a.dtype, b.dtype) == (np.float64, np.float32)
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


def test_batch_statistics_are_the_batchs_mean_and_biased_variance() -> None:
    values = _values(CASES["batch norm"], "float64")
    impl = implementation([("p", 3)], {"c": "p"}, {"c": (1, 5, 0)})
    mean, variance = run(lambda _, *tensors: norm.normalize_batch(*tensors, 1e-3)[1:], values, impl)
    np.testing.assert_allclose(mean, values[0][0].mean((0, 1, 2)))
    np.testing.assert_allclose(variance, values[0][0].var((0, 1, 2)))


def test_a_moving_average_moves_by_one_minus_its_momentum() -> None:
    old, new = np.arange(6.0), np.ones(6)
    impl = implementation([("p", 2)], {"c": "p"}, {"c": (6, 0)})
    (found,) = run(lambda _, a, b: [norm.moving_average(a, b, 0.75)], [(old, shape(c=6)), (new, shape(c=6))], impl)
    np.testing.assert_allclose(found, 0.75 * old + 0.25 * new)


WHOLE = {
    "convolution over split space": (
        lambda _, x, k: [conv.convolve(x, k, (5, 4), (1, 1), "SAME")], [{**X, "c": 6}, {**KERNEL, "c": 6, "o": 3}], "space0"
    ),
    "groups over split channels": (
        lambda _, x, k: [_conv(groups=2)(_, x, k)], [{**X, "c": 6}, {**KERNEL, "g": 3, "o": 4}], "c"
    ),
    "depthwise of split channels with a multiplier": (
        lambda _, x, k: [_depthwise()(_, x, k)], [{**X, "c": 6}, {**KERNEL, "c": 6, "m": 2}], "c"
    ),
    "softmax over split channels": (lambda _, x: [elementwise.softmax(x)], [{"batch": 2, "c": 6}], "c"),
    "statistics of a split batch": (
        lambda _, x, g, b: norm.normalize_batch(x, g, b, 1e-3), [{**X, "c": 6}, {"c": 6}, {"c": 6}], "batch"
    ),
    "pool over split space": (lambda _, x: [pool.pool(x, "max", (2, 2), (1, 1), "SAME")], [{**X, "c": 6}], "space1"),
    "mean over split space": (lambda _, x: [pool.mean_over_space(x)], [{**X, "c": 6}], "space0"),
    "padding of split space": (lambda _, x: [pool.pad_space(x, [(1, 1), (1, 1)])], [{**X, "c": 6}], "space0"),
    "concatenation of split channels": (lambda _, x: [pool.concatenate([x, x], mtf.Dimension("both", 12))], [{"batch": 2, "c": 6}], "c"),
}  # fmt: skip


@pytest.mark.parametrize("build, inputs, split", WHOLE.values(), ids=WHOLE)
def test_an_operation_that_needs_a_dimension_whole_says_which(build: Any, inputs: Any, split: str) -> None:
    extent = inputs[0][split]
    impl = implementation([("p", 2)], {split: "p"}, {split: (1, extent - 1)})
    values = [(np.ones(list(dims.values())), shape(**dims)) for dims in inputs]
    with pytest.raises(LayoutError, match=rf"needs dimension {split} whole, .*it lies on a mesh axis; leave it out of the layout"):
        run(build, values, impl)


def test_dropout_zeroes_at_its_rate_and_scales_the_rest() -> None:
    (found,) = run(
        lambda _, x: [elementwise.drop(x, 0.3, tf.constant([1, 2]))],
        [(np.ones((100, 200)), shape(b=100, c=200))],
        implementation([("p", 1)], {}),
    )
    assert set(np.unique(found)) == {0.0, 1.0 / 0.7}
    assert abs((found == 0).mean() - 0.3) < 0.02
    assert abs(found.mean() - 1.0) < 0.02


@pytest.mark.fast("VALID-average")
@pytest.mark.parametrize("mode", ["max", "average"])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_a_3d_pool_in_float64_gives_what_the_kernels_of_float32_give(mode: str, padding: str) -> None:
    build = with_gradients(lambda _, x: [pool.pool(x, mode, (3, 2, 2), (2, 1, 2), padding)])
    values = [(np.random.default_rng(0).normal(size=(2, 5, 4, 3, 2)).astype("float32"), shape(batch=2, a=5, b=4, d=3, c=2))]
    narrow = run(build, values, implementation([("p", 1)], {}))
    wide = run(build, [(x.astype("float64"), dims) for x, dims in values], implementation([("p", 1)], {}))
    for a, b in zip(narrow, wide):
        assert (a.dtype, b.dtype) == (np.float32, np.float64)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
