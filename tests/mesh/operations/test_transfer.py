"""A transfer gives the same values on another mesh, back-propagates through it, and sends what is needed and no more."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl
from hetero_mtf.mesh.lowering import Lowering
from hetero_mtf.mesh.operations.transfer import transfer
from tests.cases import examples
from tests.mesh.crossings import Crossings, crossings
from tests.mesh.running import quick, shape

NAMES = ("a", "b", "c")


@dataclasses.dataclass(frozen=True)
class Side:
    """A mesh: its axes, and the sizes of the dimensions that lie on them."""

    axes: tuple[tuple[str, int], ...]
    layout: dict[str, str]
    sizes: dict[str, tuple[int, ...]]

    def implementation(self, devices: Sequence[str] | None = None) -> UnevenMeshImpl:
        count = int(np.prod([n for _, n in self.axes]))
        return UnevenMeshImpl(self.axes, self.layout, devices or ["/device:CPU:0"] * count, self.sizes)


def _cut(generator: random.Random, total: int, parts: int) -> tuple[int, ...]:
    """Return sizes of any kind, often with zeros."""
    ends = sorted(generator.choices(range(total + 1), k=parts - 1))
    return tuple(b - a for a, b in zip([0, *ends], [*ends, total]))


def _side(generator: random.Random, extents: dict[str, int]) -> Side:
    axes = tuple((f"axis{i}", generator.randint(1, 3)) for i in range(generator.randint(1, 2)))
    dimensions = list(extents)
    generator.shuffle(dimensions)
    layout = {name: axis for name, (axis, _) in zip(dimensions, axes) if generator.random() < 0.8}
    return Side(axes, layout, {name: _cut(generator, extents[name], dict(axes)[axis]) for name, axis in layout.items()})


def _there_and_gradient(extents: dict[str, int], here: Side, there: Side) -> None:
    """Check y = transfer(x), and the gradient by x of sum(weights * y * y)."""
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=list(extents.values())), rng.normal(size=list(extents.values()))
    with tf.Graph().as_default(), tf.compat.v1.Session(config=quick()) as session:
        graph = mtf.Graph()
        first, second = mtf.Mesh(graph, "first"), mtf.Mesh(graph, "second")
        source = mtf.import_tf_tensor(first, tf.constant(x), shape(**extents))
        y = transfer(source, second)
        assert y.mesh is second and y.shape == source.shape
        total = mtf.reduce_sum(mtf.multiply(mtf.import_tf_tensor(second, tf.constant(weights), y.shape), mtf.square(y)))
        (gradient,) = mtf.gradients([total], [source])
        assert gradient.mesh is first
        lowering = Lowering(graph, {first: here.implementation(), second: there.implementation()})
        there_slices, found, back = session.run(
            [lowering.slices(y), lowering.export_to_tf_tensor(y), lowering.export_to_tf_tensor(gradient)]
        )
    np.testing.assert_array_equal(found, x)
    impl = there.implementation()
    for pnum, piece in enumerate(there_slices):
        begin, size = impl.slice_begin(y.shape, pnum), impl.processor_shape(y.shape, pnum)
        np.testing.assert_array_equal(piece, x[tuple(slice(b, b + n) for b, n in zip(begin, size))])
    np.testing.assert_allclose(back, 2 * weights * x, rtol=1e-15)


@pytest.mark.slow
@examples(10, 40)
@given(st.randoms(use_true_random=False), st.integers(0, 3))
def test_any_layouts_on_both_sides_give_the_same_values_and_gradients(generator: random.Random, rank: int) -> None:
    extents = {name: generator.randint(1, 5) for name in NAMES[:rank]}
    _there_and_gradient(extents, _side(generator, extents), _side(generator, extents))


@pytest.mark.slow
def test_two_hundred_more_layouts() -> None:
    for seed in range(200):
        generator = random.Random(seed)
        extents = {name: generator.randint(1, 6) for name in NAMES[: generator.randint(0, 3)]}
        _there_and_gradient(extents, _side(generator, extents), _side(generator, extents))


def _crossed(here: Side, there: Side, devices: tuple[Sequence[str], Sequence[str]], extents: dict[str, int]) -> tuple[Crossings, Any]:
    """Return what a transfer of whole float64 numbers sends between devices, and the slices it makes."""
    with tf.Graph().as_default() as tf_graph:
        graph = mtf.Graph()
        first, second = mtf.Mesh(graph, "first"), mtf.Mesh(graph, "second")
        impls = {first: here.implementation(devices[0]), second: there.implementation(devices[1])}
        dims = shape(**extents)
        held = [tf.zeros(impls[first].processor_shape(dims, p), tf.float64) for p in range(impls[first].size)]
        placed = impls[first].on_processors(lambda p: tf.identity(held[p]))
        x = mtf.import_laid_out_tensor(first, placed, dims)
        y = transfer(x, second)
        lowering = Lowering(graph, impls)
        wanted = {op for piece in placed.tensor_list + lowering.slices(y) for op in [piece.op]}
        for op in tf_graph.get_operations():  # constants that only give begins, sizes and axes are where they are read
            if not op.device and op not in wanted:
                for reader in {reader for tensor in op.outputs for reader in tensor.consumers()}:
                    op._set_device(reader.device)
        return crossings(tf_graph), lowering.slices(y)


def _devices(*numbers: int) -> list[str]:
    return [f"/device:CPU:{n}" for n in numbers]


def test_only_intersecting_pieces_are_sent() -> None:
    here = Side((("p", 2),), {"c": "p"}, {"c": (5, 2)})
    there = Side((("q", 2),), {"c": "q"}, {"c": (3, 4)})
    crossed, _ = _crossed(here, there, (_devices(0, 1), _devices(2, 3)), {"b": 4, "c": 7})
    sent = {(a[-1], b[-1]): n for (a, b), n in crossed.sent_bytes.items()}
    assert sent == {("0", "2"): 4 * 3 * 8, ("0", "3"): 4 * 2 * 8, ("1", "3"): 4 * 2 * 8}
    assert crossed.rounds == 1 and crossed.empty == 0


def test_what_a_device_holds_already_is_not_sent() -> None:
    here = Side((("p", 2),), {"c": "p"}, {"c": (5, 2)})
    there = Side((("q", 2),), {}, {})
    crossed, _ = _crossed(here, there, (_devices(0, 1), _devices(1, 2)), {"b": 4, "c": 7})
    sent = {(a[-1], b[-1]): n for (a, b), n in crossed.sent_bytes.items()}
    assert sent == {("0", "1"): 4 * 5 * 8, ("0", "2"): 4 * 5 * 8, ("1", "2"): 4 * 2 * 8}


def test_equal_holders_share_the_sending() -> None:
    crossed, _ = _crossed(
        Side((("p", 2),), {}, {}), Side((("q", 4),), {"b": "q"}, {"b": (2, 2, 2, 2)}), (_devices(0, 1), _devices(2, 3, 4, 5)), {"b": 8}
    )
    sent = {(a[-1], b[-1]): n for (a, b), n in crossed.sent_bytes.items()}
    assert sent == {("0", "2"): 16, ("1", "3"): 16, ("0", "4"): 16, ("1", "5"): 16}


def test_a_piece_goes_to_a_device_once_and_replicas_stay_apart() -> None:
    one = Side((("p", 1),), {}, {})
    crossed, _ = _crossed(one, Side((("q", 3),), {}, {}), (_devices(0), _devices(1, 1, 1)), {"b": 8})
    assert crossed.full_bytes == 64
    here = Side((("batch", 2), ("filters", 2)), {"b": "batch", "c": "filters"}, {"b": (5, 3), "c": (4, 2)})
    there = Side((("batch", 2), ("filters", 1)), {"b": "batch"}, {"b": (5, 3)})
    crossed, _ = _crossed(here, there, (_devices(0, 1, 2, 3), _devices(4, 5)), {"b": 8, "c": 6})
    sent = {(a[-1], b[-1]): n for (a, b), n in crossed.sent_bytes.items()}
    assert sent == {("0", "4"): 5 * 4 * 8, ("1", "4"): 5 * 2 * 8, ("2", "5"): 3 * 4 * 8, ("3", "5"): 3 * 2 * 8}


def test_what_stays_where_it_is_costs_no_operation() -> None:
    side = Side((("p", 2),), {"c": "p"}, {"c": (5, 2)})
    crossed, slices = _crossed(side, side, (_devices(0, 1), _devices(0, 1)), {"b": 4, "c": 7})
    assert crossed.full_bytes == 0 and all(piece.op.type == "Identity" for piece in slices)


def test_owed_sums_are_complete_before_they_are_sent() -> None:
    x, kernel = np.arange(12.0).reshape(3, 4), np.arange(8.0).reshape(4, 2)
    here = Side((("p", 2),), {"i": "p"}, {"i": (3, 1)})
    there = Side((("q", 2),), {"wide": "q"}, {"wide": (0, 2)})
    with tf.Graph().as_default(), tf.compat.v1.Session(config=quick()) as session:
        graph = mtf.Graph()
        first, second = mtf.Mesh(graph, "first"), mtf.Mesh(graph, "second")
        left, right = (mtf.import_tf_tensor(first, tf.constant(a), dims) for a, dims in ((x, shape(b=3, i=4)), (kernel, shape(i=4, o=2))))
        product = mtf.einsum([left, right], output_shape=shape(b=3, o=2))
        y = transfer(product, second, shape(b=3, wide=2))
        lowering = Lowering(graph, {first: here.implementation(), second: there.implementation()})
        empty, whole = session.run(lowering.slices(y))
    assert y.shape.dimension_names == ["b", "wide"]
    np.testing.assert_array_equal(whole, x @ kernel)
    assert empty.shape == (3, 0)


def test_whole_numbers_have_no_gradient_and_nothing_at_all_can_be_sent() -> None:
    side = Side((("p", 2),), {"b": "p"}, {"b": (0, 0)})
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        graph = mtf.Graph()
        first, second = mtf.Mesh(graph, "first"), mtf.Mesh(graph, "second")
        y = transfer(mtf.import_tf_tensor(first, tf.zeros([0, 2], tf.int32), shape(b=0, c=2)), second)
        assert not y.operation.has_gradient
        lowering = Lowering(graph, {first: side.implementation(), second: side.implementation()})
        assert [piece.shape for piece in session.run(lowering.slices(y))] == [(0, 2), (0, 2)]


def test_other_extents_are_refused() -> None:
    with tf.Graph().as_default():
        graph = mtf.Graph()
        first, second = mtf.Mesh(graph, "first"), mtf.Mesh(graph, "second")
        x = mtf.import_tf_tensor(first, tf.zeros([2, 3]), shape(b=2, c=3))
        with pytest.raises(LayoutError, match=r"of .*b=2.* cannot be transferred as .*c=2.*; give a shape of the same extents"):
            transfer(x, second, shape(b=3, c=2))
