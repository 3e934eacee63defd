"""Where slices lie: laws of sizes and beginnings, and whole tensors in and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh import UnevenMeshImpl
from hetero_mtf.mesh.compat import mtf
from tests.mesh.running import implementation, run, shape


@st.composite
def laid_out(draw: Any) -> tuple[UnevenMeshImpl, Any, dict[str, tuple[int, ...]]]:
    """Draw a 1-D or 2-D mesh and a shape some of whose dimensions lie on it in any sizes."""
    axes = draw(st.sampled_from([[("p", 1)], [("p", 2)], [("p", 3)], [("p", 2), ("q", 2)], [("p", 2), ("q", 3)]]))
    names = draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True))
    layout, sizes, extents = {}, {}, {}
    free = list(axes)
    for name in names:
        if free and draw(st.booleans()):
            axis, count = free.pop(draw(st.integers(0, len(free) - 1)))
            layout[name] = axis
            sizes[name] = tuple(draw(st.lists(st.integers(0, 3), min_size=count, max_size=count).filter(any)))
            extents[name] = sum(sizes[name])
        else:
            extents[name] = draw(st.integers(1, 4))
    return implementation(axes, layout, sizes), shape(**extents), sizes


@pytest.mark.slow
@hypothesis.given(laid_out())
@hypothesis.settings(max_examples=150)
def test_slices_lie_side_by_side_and_cover_each_dimension(drawn: Any) -> None:
    impl, dims, sizes = drawn
    for place, dimension in enumerate(dims.dims):
        windows = {(impl.slice_begin(dims, p)[place], impl.processor_shape(dims, p)[place]) for p in range(impl.size)}
        if dimension.name not in sizes:
            assert windows == {(0, dimension.size)}
            continue
        expected, begin = set(), 0
        for extent in sizes[dimension.name]:
            expected.add((begin, extent))
            begin += extent
        assert windows == expected and begin == dimension.size
    elements = [int(np.prod(impl.processor_shape(dims, p))) for p in range(impl.size)]
    assert impl.slice_size(dims) == max(elements)
    assert impl.laid_out_size(dims) == sum(elements)


@pytest.mark.slow
@hypothesis.given(laid_out())
@hypothesis.settings(max_examples=25)
def test_what_is_imported_is_exported_unchanged(drawn: Any) -> None:
    impl, dims, _ = drawn
    array = np.arange(dims.size, dtype="float32").reshape(dims.to_integer_list)
    (found,) = run(lambda _, x: [x], [(array, dims)], impl)
    np.testing.assert_array_equal(found, array)
    (slices,) = run(lambda _, x: [x], [(array, dims)], impl, slices=True)
    for p, piece in enumerate(slices):
        window = tuple(slice(b, b + n) for b, n in zip(impl.slice_begin(dims, p), impl.processor_shape(dims, p)))
        np.testing.assert_array_equal(piece, array[window])


SIZES = [(5, 1), (3, 2, 1), (4, 0, 2), (0, 6, 0)]


def _reduce(name: str, drop: str) -> Callable[..., Any]:
    return lambda _, x: [getattr(mtf, name)(x, reduced_dim=next(d for d in x.shape.dims if d.name == drop))]


ELEMENTARY: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "constant": (lambda mesh, x, y: [mtf.Constant(mesh, 2.5, x.shape, x.dtype).outputs[0]], lambda x, y: np.full_like(x, 2.5)),
    "sum over the split": (lambda m, x, y: _reduce("reduce_sum", "c")(m, x), lambda x, y: x.sum(1)),
    "sum beside the split": (lambda m, x, y: _reduce("reduce_sum", "a")(m, x), lambda x, y: x.sum(0)),
    "maximum over the split": (lambda m, x, y: _reduce("reduce_max", "c")(m, x), lambda x, y: x.max(1)),
    "minimum over the split": (lambda m, x, y: _reduce("reduce_min", "c")(m, x), lambda x, y: x.min(1)),
    "mean over the split": (lambda m, x, y: _reduce("reduce_mean", "c")(m, x), lambda x, y: x.mean(1)),
    "sum of all": (lambda _, x, y: [mtf.reduce_sum(x)], lambda x, y: x.sum()),
    "sum of equal shapes": (lambda _, x, y: [mtf.add(x, x)], lambda x, y: x + x),
    "product with a vector": (lambda _, x, y: [mtf.multiply(x, y)], lambda x, y: x * y),
    "broadcast": (lambda _, x, y: [mtf.broadcast(y, x.shape)], lambda x, y: np.broadcast_to(y, x.shape)),
    "einsum over the split": (lambda _, x, y: [mtf.einsum([x, y], output_shape=x.shape - y.shape.dims)], lambda x, y: x @ y),
    "einsum that keeps the split": (lambda _, x, y: [mtf.einsum([x, y], output_shape=x.shape)], lambda x, y: x * y),
    "scalar": (lambda _, x, y: [x * 2.0 + 1.0], lambda x, y: x * 2 + 1),
    "maximum of two": (lambda _, x, y: [mtf.maximum(x, mtf.broadcast(y, x.shape))], lambda x, y: np.maximum(x, y)),
}


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("build, oracle", ELEMENTARY.values(), ids=ELEMENTARY)
def test_elementary_operations_give_what_numpy_gives(build: Any, oracle: Any, sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4, 6)), rng.normal(size=6)
    impl = implementation([("p", len(sizes))], {"c": "p"}, {"c": sizes})
    (found,) = run(build, [(x, shape(a=4, c=6)), (y, shape(c=6))], impl)
    np.testing.assert_allclose(found, oracle(x, y), rtol=1e-12)


def test_a_dimension_of_several_sizes_takes_the_list_that_fits() -> None:
    impl = implementation([("p", 2)], {"c": "p"}, {"c": [(3, 1), np.array([0, 2])]})
    assert impl.sizes_of(mtf.Dimension("c", 4)) == (3, 1) and impl.sizes_of(mtf.Dimension("c", 2)) == (0, 2)


def test_a_processor_knows_its_neighbours() -> None:
    impl = implementation([("p", 3), ("q", 2)], {})
    assert [impl.neighbour(3, 0, place) for place in range(3)] == [1, 3, 5]
    assert [impl.neighbour(3, 1, place) for place in range(2)] == [2, 3]


def _split(*sizes: int, count: int = 2) -> UnevenMeshImpl:
    return implementation([("p", count)], {"c": "p"}, {"c": sizes} if sizes else None)


FAULTS: dict[str, tuple[Callable[[], Any], str]] = {
    "unknown axis": (lambda: implementation([("p", 2)], {"c": "q"}), "the layout names the mesh axes q, the mesh has p; name one of these"),
    "devices": (lambda: UnevenMeshImpl([("p", 2)], {}, ["/device:CPU:0"]), "the mesh has 2 processors and 1 devices are given"),
    "sizes without layout": (lambda: implementation([("p", 2)], {}, {"c": (1, 2)}), "sizes are given for dimension c, which lies on no"),
    "count of sizes": (lambda: _split(1, 2, 3), r"has the sizes \[1, 2, 3\] on a mesh axis of 2; give 2"),
    "negative sizes": (lambda: _split(3, -1), r"has the sizes \[3, -1\]"),
    "sum": (
        lambda: _split(3, 1).sizes_of(mtf.Dimension("c", 5)),
        r"dimension c has 5 units, its sizes \[3, 1\] sum to 4; make them agree",
    ),
    "not divisible": (
        lambda: _split().sizes_of(mtf.Dimension("c", 5)), "dimension c of 5 is not divisible by 2 processors; give sizes"
    ),
    "two dimensions on one axis": (
        lambda: implementation([("p", 2)], {"c": "p", "d": "p"}).processor_shape(shape(c=2, d=4), 0),
        "two dimensions of .* lie on one mesh axis; give one of them another name",
    ),
    "the one slice shape": (
        lambda: _split(3, 1).slice_shape(shape(c=4)), "is cut unevenly and has no single slice shape"
    ),
    "all to all": (lambda: implementation([("p", 2)], {}).alltoall(None, 0, 0, 0), "alltoall is not supported on unequal slices"),
    "receive": (lambda: implementation([("p", 2)], {}).receive(None, 0, [None]), "receive .* is not supported"),
    "two lists of one sum": (
        lambda: implementation([("p", 2)], {"c": "p"}, {"c": [(3, 1), (1, 3)]}),
        r"dimension c has the sizes \[3, 1\] and \[1, 3\] of one sum; give it one of them",
    ),
    "none of several sums": (
        lambda: implementation([("p", 2)], {"c": "p"}, {"c": [(3, 1), (2, 0)]}).sizes_of(mtf.Dimension("c", 5)),
        r"dimension c has 5 units, its sizes \[3, 1\] sum to 4 and \[2, 0\] sum to 2; make them agree",
    ),
    "computed split": (lambda: implementation([("p", 2)], {}).allsplit(None, 0, 0, which=1), "allsplit by a computed coordinate is not"),
}  # fmt: skip


@pytest.mark.parametrize("work, words", FAULTS.values(), ids=FAULTS)
def test_what_cannot_be_laid_out_is_refused(work: Callable[[], Any], words: str) -> None:
    with pytest.raises(LayoutError, match=words):
        work()


def test_a_tensor_with_two_dimensions_on_one_axis_is_refused_when_lowered() -> None:
    impl = implementation([("p", 2)], {"c": "p", "d": "p"}, {"c": (1, 2), "d": (3, 1)})
    with pytest.raises(LayoutError, match="two dimensions of .* lie on one mesh axis"):
        run(lambda _, x: [x], [(np.ones((3, 4)), shape(c=3, d=4))], impl)
