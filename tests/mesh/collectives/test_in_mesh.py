"""Collectives on meshes: groups along one axis or several, by any rule, with unequal and empty slices."""

from __future__ import annotations

import dataclasses
from typing import Any

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh import UnevenMeshImpl
from hetero_mtf.mesh.collectives import Collectives
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.planning.layout.records import CollectiveRule
from tests.cases import examples
from tests.mesh.crossings import crossings
from tests.mesh.running import run, shape

METHODS = ["ring", "butterfly", "halving_doubling", "exchange", "two_level", None]
MESHES = [[("p", 2), ("q", 2)], [("p", 2), ("q", 3)], [("p", 3), ("q", 2)], [("p", 1), ("q", 3)], [("p", 4)]]


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A mesh, three extents, and which of three dimensions lies on which axis before and after."""

    axes: list[tuple[str, int]]
    extents: list[int]
    before: dict[str, str]
    after: dict[str, str]
    sizes: dict[str, tuple[int, ...]]
    collectives: Collectives | None

    def implementation(self) -> UnevenMeshImpl:
        count = int(np.prod([n for _, n in self.axes]))
        devices = ["/device:CPU:0"] * count
        return UnevenMeshImpl(self.axes, {**self.before, **self.after}, devices, self.sizes, self.collectives)


@st.composite
def drawn(draw: Any) -> Drawn:
    axes = draw(st.sampled_from(MESHES))
    extents = [draw(st.integers(1, 5)) for _ in range(3)]
    count = int(np.prod([n for _, n in axes]))
    method = draw(st.sampled_from(METHODS))
    hosts = tuple(draw(st.sampled_from("xyz")) for _ in range(count))
    made = Collectives((CollectiveRule("all_reduce", method),), hosts) if method else None
    before, after, sizes = {}, {}, {}
    for layout, names in ((before, "abc"), (after, "def")):
        places = draw(st.permutations(range(3)))
        for (axis, parts), place in zip(axes, places):
            if draw(st.integers(0, 4)):
                layout[names[place]] = axis
                sizes[names[place]] = cut(draw, extents[place], parts)
    return Drawn(axes, extents, before, after, sizes, made)


def cut(draw: Any, extent: int, parts: int) -> tuple[int, ...]:
    """Draw sizes that sum to an extent; zeros are likely."""
    ends = sorted(draw(st.lists(st.sampled_from([0, extent, extent // 2, 1]), min_size=parts - 1, max_size=parts - 1)))
    return tuple(after - before for before, after in zip([0, *ends], [*ends, extent]))


@hypothesis.given(drawn())
@examples(10, 40)
def test_a_tensor_moves_from_any_layout_to_any_other(case: Drawn) -> None:
    whole = np.random.default_rng(0).normal(size=case.extents)
    before, after = (shape(**dict(zip(names, case.extents))) for names in ("abc", "def"))
    impl = case.implementation()
    (slices,) = run(lambda _, x: [mtf.reshape(x, after)], [(whole, before)], impl, slices=True)
    for p, piece in enumerate(slices):
        window = tuple(slice(b, b + n) for b, n in zip(impl.slice_begin(after, p), impl.processor_shape(after, p)))
        np.testing.assert_array_equal(piece, whole[window])


@pytest.mark.slow
@hypothesis.given(drawn(), st.sets(st.integers(0, 2), min_size=1))
@examples(10, 40)
def test_a_sum_over_split_dimensions_lies_as_asked_with_the_same_bits_in_all_copies(case: Drawn, gone: set[int]) -> None:
    whole = np.random.default_rng(0).normal(size=case.extents)
    before, after = (shape(**dict(zip(names, case.extents))) for names in ("abc", "def"))
    kept, target = (mtf.Shape([d for at, d in enumerate(dims.dims) if at not in gone]) for dims in (before, after))
    impl = case.implementation()

    def build(_: Any, x: Any) -> list[Any]:
        return [mtf.reshape(mtf.reduce_sum(x, output_shape=kept), target)]

    (slices,) = run(build, [(whole, before)], impl, slices=True)
    bits: dict[Any, bytes] = {}
    for p, piece in enumerate(slices):
        begin, extent = impl.slice_begin(target, p), impl.processor_shape(target, p)
        window = tuple(slice(b, b + n) for b, n in zip(begin, extent))
        np.testing.assert_allclose(piece, whole.sum(tuple(gone))[window], rtol=1e-13, atol=1e-13)
        assert bits.setdefault((*begin, *extent), piece.tobytes()) == piece.tobytes()


@pytest.mark.fast("None")
@pytest.mark.parametrize("method", METHODS)
def test_an_all_reduce_along_each_axis_and_along_both_is_exact(method: str | None) -> None:
    made = Collectives((CollectiveRule("all_reduce", method),), tuple("xxyyxy")) if method else None
    impl = UnevenMeshImpl([("p", 2), ("q", 3)], {}, ["/device:CPU:0"] * 6, None, made)
    arrays = np.random.default_rng(0).normal(size=(6, 7))
    for axes, groups in (
        ([0], [[0, 3], [1, 4], [2, 5]]),
        ([1], [[0, 1, 2], [3, 4, 5]]),
        ([0, 1], [list(range(6))]),
        ([], [[p] for p in range(6)]),
    ):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            slices = impl.LaidOutTensor([tf.constant(array) for array in arrays])
            found = session.run(impl.allreduce(slices, axes, "SUM").tensor_list)
        for group in groups:
            assert len({found[p].tobytes() for p in group}) == 1
            np.testing.assert_allclose(found[group[0]], arrays[group].sum(0), rtol=1e-13)


def test_two_levels_keep_to_the_hosts_of_each_group() -> None:
    hosts = tuple("xxyxyy")
    devices = [f"/job:worker/task:{p}/device:CPU:0" for p in range(6)]
    impl = UnevenMeshImpl([("p", 2), ("q", 3)], {}, devices, None, Collectives((CollectiveRule("all_reduce", "two_level"),), hosts))
    with tf.Graph().as_default() as graph:
        slices = impl.on_processors(lambda _: tf.compat.v1.placeholder(tf.float32, [8]))
        impl.allreduce(slices, [1], "SUM")
        sent = crossings(graph).sent_bytes
    pairs = {(devices.index(a), devices.index(b)) for a, b in sent}
    assert pairs == {(1, 0), (0, 1), (0, 2), (2, 0), (5, 4), (4, 5), (3, 4), (4, 3)}


def test_hosts_that_are_not_one_a_processor_are_refused() -> None:
    with pytest.raises(LayoutError, match="the mesh has 2 processors and 3 hosts are given; give one a processor"):
        UnevenMeshImpl([("p", 2)], {}, ["/device:CPU:0"] * 2, None, Collectives((), ("x", "x", "y")))
