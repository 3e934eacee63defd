"""A halo exchange gives each processor the positions that it reads, and its gradient adds up what all of them have for a position."""

from __future__ import annotations

import random

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl
from hetero_mtf.mesh.lowering import Lowering
from hetero_mtf.mesh.operations.compute import compute
from hetero_mtf.mesh.operations.halo import exchange_halo
from tests.cases import examples
from tests.mesh.crossings import crossings
from tests.mesh.running import quick, shape


def cut(generator: random.Random, total: int, parts: int) -> tuple[int, ...]:
    """Return sizes of any kind, often with zeros."""
    ends = sorted(generator.choices(range(total + 1), k=parts - 1))
    return tuple(b - a for a, b in zip([0, *ends], [*ends, total]))


def check(extents: dict[str, int], slabs: tuple[int, ...] | None, ranges: list[tuple[int, int]], fill: float, channels: bool) -> None:
    """Check y = exchange_halo(x) of the dimension "space", and the gradient by x of sum(weights * y * y)."""
    count = len(ranges)
    axes = (("slabs", count), ("filters", 2))
    lengths = tuple(end - begin for begin, end in ranges)
    layout = {"read": "slabs", **({"space": "slabs"} if slabs else {}), **({"channels": "filters"} if channels else {})}
    sizes = {"read": lengths, **({"space": slabs} if slabs else {}), **({"channels": (extents["channels"], 0)} if channels else {})}
    impl = UnevenMeshImpl(axes, layout, ["/device:CPU:0"] * (2 * count), sizes)
    rng = np.random.default_rng(0)
    x = rng.normal(size=list(extents.values()))
    with tf.Graph().as_default(), tf.compat.v1.Session(config=quick()) as session:
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        source = mtf.import_tf_tensor(mesh, tf.constant(x), shape(**extents))
        read = mtf.Dimension("read", sum(lengths))
        y = exchange_halo(source, source.shape.dims[1], ranges, read, fill)
        whole = [np.take(np.pad(x, [(0, 0), (50, 50), (0, 0)], constant_values=fill), range(b + 50, e + 50), 1) for b, e in ranges]
        weights = [rng.normal(size=part.shape) for part in whole]
        weighted = mtf.import_tf_tensor(mesh, tf.constant(np.concatenate(weights, 1)), y.shape)
        square = compute("square", tf.square, [y], y.shape)  # its gradient joins again what it reads
        (gradient,) = mtf.gradients([mtf.reduce_sum(mtf.multiply(weighted, square))], [source])
        lowering = Lowering(graph, {mesh: impl})
        found, back = session.run([lowering.export_to_tf_tensor(y), lowering.export_to_tf_tensor(gradient)])
    np.testing.assert_array_equal(found, np.concatenate(whole, 1))
    wanted = np.zeros_like(x)
    for (begin, end), part, weight in zip(ranges, whole, weights):
        for at in range(max(begin, 0), min(end, x.shape[1])):
            wanted[:, at] += 2 * weight[:, at - begin] * part[:, at - begin]
    np.testing.assert_allclose(back, wanted, rtol=1e-13, atol=1e-13)


@examples(10, 60)
@given(st.integers(0, 2**32))
def test_every_processor_has_what_it_reads_and_gradients_come_back(seed: int) -> None:
    generator = random.Random(seed)
    count, size = generator.randint(1, 5), generator.randint(1, 9)
    slabs = cut(generator, size, count) if generator.random() < 0.85 else None
    begins = [generator.randint(-3, size + 2) for _ in range(count)]
    ranges = [(begin, begin + generator.choice([0, 1, 2, 5, size + 4])) for begin in begins]
    if not any(end - begin for begin, end in ranges):
        ranges[0] = (0, size)
    extents = {"batch": generator.randint(1, 2), "space": size, "channels": generator.randint(1, 3)}
    check(extents, slabs, ranges, generator.choice([0.0, -7.0]), generator.random() < 0.5)


@pytest.mark.parametrize(
    "slabs, ranges",
    [
        pytest.param((5, 3, 2), [(-1, 6), (4, 9), (7, 11)], id="a window of 3"),
        pytest.param((8, 1, 1), [(-2, 10), (6, 11), (7, 12)], id="slabs thinner than the halo"),
        pytest.param((6, 0, 4), [(-1, 7), (6, 6), (5, 11)], id="a processor without a slab"),
        pytest.param((10, 0, 0), [(0, 4), (4, 8), (8, 10)], id="other slabs"),
    ],
)
def test_windows_reach_over_neighbours(slabs: tuple[int, ...], ranges: list[tuple[int, int]]) -> None:
    check({"batch": 1, "space": 10, "channels": 2}, slabs, ranges, 0.0, False)


def test_only_what_is_read_is_sent() -> None:
    devices = [f"/job:worker/task:{task}/device:CPU:0" for task in range(3)]
    ranges = [(-1, 5), (3, 8), (6, 11)]
    impl = UnevenMeshImpl([("slabs", 3)], {"space": "slabs", "read": "slabs"}, devices, {"space": (4, 3, 3), "read": (6, 5, 5)})
    with tf.Graph().as_default() as tensorflow:
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        source = mtf.zeros(mesh, shape(batch=1, space=10, channels=4), dtype=tf.float32)
        y = exchange_halo(source, source.shape.dims[1], ranges, mtf.Dimension("read", 16))
        Lowering(graph, {mesh: impl}).slices(y)
        sent = crossings(tensorflow)
    row = 4 * 4  # bytes of a position
    assert sent.full_bytes == 4 * row and sent.rounds == 1
    assert {(a[-14], b[-14]) for a, b in sent.sent_bytes} == {("0", "1"), ("1", "0"), ("1", "2"), ("2", "1")}


def test_ranges_that_are_none_of_the_tensor_are_refused() -> None:
    graph = mtf.Graph()
    with tf.Graph().as_default():
        x = mtf.zeros(mtf.Mesh(graph, "mesh"), shape(batch=1, space=10), dtype=tf.float32)
        with pytest.raises(LayoutError, match="cannot be read from"):
            exchange_halo(x, mtf.Dimension("depth", 10), [(0, 10)], mtf.Dimension("read", 10))
        with pytest.raises(LayoutError, match="cannot be read from"):
            exchange_halo(x, x.shape.dims[1], [(0, 10)], mtf.Dimension("read", 9))
