"""Lowering: reshapes move any slices anywhere, and what is not known to be right is refused by name."""

from __future__ import annotations

from typing import Any

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl
from hetero_mtf.mesh.lowering import AS_THEY_ARE, Lowering, _exchanges
from hetero_mtf.mesh.operations.local import Local
from tests.cases import examples
from tests.mesh.running import implementation, quick, run, shape

AXES = ([("p", 2)], [("p", 3)], [("p", 2), ("q", 2)], [("p", 3), ("q", 2)])


def _factors(draw: Any, extent: int) -> list[int]:
    """Draw extents whose product is `extent`, ones included."""
    found = []
    while extent > 1 and len(found) < 3:
        found.append(draw(st.sampled_from([n for n in range(1, extent + 1) if extent % n == 0])))
        extent //= found[-1]
    return [*found, extent]


@st.composite
def reshapes(draw: Any) -> Any:
    """Draw a mesh, two shapes of as many elements, and any layout and sizes of both."""
    axes = draw(st.sampled_from(AXES))
    extent = draw(st.sampled_from([6, 8, 12, 24, 36]))
    layout: dict[str, str] = {}
    sizes: dict[str, tuple[int, ...]] = {}

    def lay(prefix: str) -> Any:
        dims = {f"{prefix}{i}": n for i, n in enumerate(_factors(draw, extent))}
        for axis, count in axes:
            free = [name for name in dims if name not in layout]
            if free and draw(st.integers(0, 3)):
                name = draw(st.sampled_from(free))
                layout[name] = axis
                cuts = sorted(draw(st.lists(st.integers(0, dims[name]), min_size=count - 1, max_size=count - 1)))
                sizes[name] = tuple(int(n) for n in np.diff([0, *cuts, dims[name]]))
        return shape(**dims)

    old = lay("x")
    if draw(st.booleans()):
        return axes, layout, sizes, old, lay("y"), draw(st.booleans())
    renamed = {f"y{i}": d.size for i, d in enumerate(old.dims)}  # a rename that keeps some of the layout
    for i, d in enumerate(old.dims):
        if d.name in layout and draw(st.booleans()):
            layout[f"y{i}"], sizes[f"y{i}"] = layout[d.name], sizes[d.name]
    return axes, layout, sizes, old, shape(**renamed), draw(st.booleans())


@pytest.mark.slow
@hypothesis.given(reshapes())
@examples(15, 60)
def test_a_reshape_of_any_slices_into_any_others_is_numpys(drawn: Any) -> None:
    axes, layout, sizes, old, new, owed = drawn
    first, count = axes[0]
    if owed and not any(layout.get(d.name) == first for d in old.dims):  # the slices are partial sums over the first axis
        layout, sizes = {**layout, "s": first}, {**sizes, "s": (3, *(0 for _ in range(count - 2)), 1)}
    array = np.random.default_rng(0).normal(size=[*old.to_integer_list, 4])
    summed = mtf.Dimension("s", 4)
    build = lambda _, x: [mtf.reshape(mtf.reduce_sum(x, reduced_dim=summed), new)]  # noqa: E731
    (found,) = run(build, [(array, old + summed)], implementation(axes, layout, sizes))
    np.testing.assert_allclose(found, array.sum(-1).reshape(new.to_integer_list), rtol=1e-12)


GRIDS = ([("p", 2), ("q", 2)], [("p", 2), ("q", 3)], [("p", 3), ("q", 2)])


def _sizes(rng: np.random.Generator, extent: int, count: int) -> tuple[int, ...]:
    """Return sizes of sum `extent`, often some of them zero."""
    cuts = np.sort(rng.integers(0, extent + 1, size=count - 1))
    return tuple(int(n) for n in np.diff([0, *cuts, extent]))


def _move(rng: np.random.Generator) -> tuple[UnevenMeshImpl, Any, Any]:
    """Return a mesh of two axes and two shapes of as many elements, most often of the same extents, each laid out at random."""
    axes = GRIDS[rng.integers(len(GRIDS))]
    extents = [int(n) for n in rng.choice([1, 2, 3, 4], size=rng.choice([2, 3, 4, 4]))]
    merged = int(rng.integers(len(extents) - 1))
    joined = [*extents[:merged], extents[merged] * extents[merged + 1], *extents[merged + 2 :]]
    pair = [extents, [extents, extents, joined][rng.integers(3)]]
    layout, sizes, shapes = {}, {}, []
    for prefix, dims in zip("xy", pair[:: rng.choice([-1, 1])]):
        places = rng.permutation(len(dims))
        for (axis, count), place in zip(axes, places):
            if rng.random() < 0.85:
                layout[f"{prefix}{place}"] = axis
                sizes[f"{prefix}{place}"] = _sizes(rng, dims[place], count)
        shapes.append(shape(**{f"{prefix}{i}": n for i, n in enumerate(dims)}))
    return implementation(axes, layout, sizes), *shapes


@pytest.mark.slow
@pytest.mark.parametrize("count, exchanges", [(40, 7), pytest.param(320, 61, marks=pytest.mark.slow)])
def test_moves_on_meshes_of_two_axes_are_numpys_on_every_processor(count: int, exchanges: int) -> None:
    rng = np.random.default_rng(11)
    moves = [_move(rng) for _ in range(count)]
    exchanged = 0
    for batch in range(0, len(moves), 40):
        with tf.Graph().as_default(), tf.compat.v1.Session(config=quick()) as session:
            fetches, expected = [], []
            for impl, old, new in moves[batch : batch + 40]:
                whole = np.arange(float(old.size)).reshape(old.to_integer_list)
                graph = mtf.Graph()
                mesh = mtf.Mesh(graph, "mesh")
                moved = mtf.ReshapeOperation(mtf.import_tf_tensor(mesh, tf.constant(whole), old), new, "move").outputs[0]
                fetches.append(Lowering(graph, {mesh: impl}).slices(moved))
                begins = [impl.slice_begin(new, p) for p in range(impl.size)]
                ends = [np.add(begin, impl.processor_shape(new, p)) for p, begin in enumerate(begins)]
                windows = [tuple(slice(*edges) for edges in zip(*both)) for both in zip(begins, ends)]
                expected.append([whole.reshape(new.to_integer_list)[window] for window in windows])
                exchanged += bool(_exchanges(impl, old, new, set()))
            for found, wanted in zip(session.run(fetches), expected, strict=True):
                for piece, window in zip(found, wanted, strict=True):
                    np.testing.assert_array_equal(piece, window)
    assert exchanged >= exchanges  # moves that an all-to-all serves


@pytest.mark.fast("(2, 0, 0)")
@pytest.mark.parametrize("sizes", [(2, 0, 0), (0, 1, 1)], ids=str)
def test_an_empty_slice_is_a_constant_that_graph_rewriting_survives(sizes: tuple[int, ...]) -> None:
    dims = shape(a=6, b=2)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:  # rewriting as it is by default
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        fed = tf.compat.v1.placeholder(tf.float64, [6, 2])
        x = mtf.import_tf_tensor(mesh, fed, dims)
        (dx,) = mtf.gradients([mtf.top_k(x, dims.dims[0], mtf.Dimension("k", 2))[0]], [x])
        lowering = Lowering(graph, {mesh: implementation([("p", 3)], {"b": "p"}, {"b": sizes})})
        empty = [piece for tensor in (x, dx) for piece in lowering.slices(tensor) if 0 in piece.shape.as_list()]
        assert empty and {piece.op.type for piece in empty} == {"Const"}
        found = session.run(lowering.export_to_tf_tensor(dx), {fed: np.arange(12.0).reshape(6, 2)})
    np.testing.assert_array_equal(found, [[0, 0]] * 4 + [[1, 1]] * 2)


def test_the_stock_operations_that_are_let_through_exist() -> None:
    stock = {name for module in (mtf, mtf.ops) for name in dir(module)}
    assert [name for name in AS_THEY_ARE if name not in stock] == []


def test_an_operation_of_ones_own_under_a_stock_name_is_refused() -> None:
    class AddOperation(mtf.Operation):  # type: ignore[misc, name-defined]
        def __init__(self, x: Any) -> None:
            super().__init__([x], name="mine")
            self._outputs = [mtf.Tensor(self, x.shape, x.dtype)]

    with pytest.raises(LayoutError, match=r"operation mine.* \(AddOperation\) is not supported on unequal slices; use mtf.slicewise"):
        run(lambda _, x: AddOperation(x).outputs, [(np.ones(3), shape(c=3))], implementation([("p", 1)], {}))


def test_a_wrong_slice_on_any_processor_is_noticed() -> None:
    def wrong(p: Any, x: Any) -> Any:
        return x[:-1] if p.pnum == 1 else x

    impl = implementation([("p", 2)], {"c": "p"}, {"c": (3, 2)})
    with pytest.raises(LayoutError, match=r"wrong.* made a slice of \[1\] on processor 1, expected \[2\]"):
        run(lambda _, x: Local("wrong", wrong, [x], [(x.shape, x.dtype)]).outputs, [(np.ones(5), shape(c=5))], impl)
