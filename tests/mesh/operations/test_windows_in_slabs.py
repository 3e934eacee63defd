"""Convolutions and pools of slabs, after a halo exchange, are those of the whole tensor, and so are their gradients."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from hypothesis import example, given
from hypothesis import strategies as st

from hetero_mtf.layers.reach import Reach, same_padding
from hetero_mtf.layers.windowed.window import dilated, window_shape
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl
from hetero_mtf.mesh.lowering import Lowering
from hetero_mtf.mesh.operations import pool
from hetero_mtf.mesh.operations.convolution import conv
from hetero_mtf.mesh.operations.halo import exchange_halo
from tests.cases import examples
from tests.mesh.running import quick, shape


class Drawn:
    """A layer of windows over a tensor of two or three spatial dimensions, one of which lies in slabs."""

    def __init__(self, seed: int, dilates: bool) -> None:
        generator = random.Random(seed)
        self.rank = generator.choice([2, 2, 3])
        self.window = [generator.randint(1, 4) for _ in range(self.rank)]
        self.strides = [generator.randint(1, 3) for _ in range(self.rank)]
        if dilates and generator.random() < 0.3:  # TensorFlow has no strides together with dilation
            self.strides, self.dilation = [1] * self.rank, [generator.randint(1, 2) for _ in range(self.rank)]
        else:
            self.dilation = [1] * self.rank
        self.padding = generator.choice(["same", "valid"])
        spans = dilated(self.window, self.dilation)
        self.extents = [generator.randint(span, span + 6) for span in spans]
        self.outputs = window_shape(tuple(self.extents), spans, self.strides, self.padding)
        self.along = generator.randrange(self.rank)
        count = generator.randint(1, 5)
        ends = sorted(generator.choices(range(self.extents[self.along] + 1), k=count - 1))
        self.slabs = tuple(b - a for a, b in zip([0, *ends], [*ends, self.extents[self.along]]))
        before = [same_padding(n, k, s) if self.padding == "same" else 0 for n, k, s in zip(self.extents, spans, self.strides)]
        self.sides = [
            (b, max((m - 1) * s + k - n - b, 0) if self.padding == "same" else 0)
            for b, n, k, s, m in zip(before, self.extents, spans, self.strides, self.outputs)
        ]
        self.reach = Reach(spans[self.along], self.strides[self.along], before[self.along])
        self.made = self.reach.slabs(self.slabs, self.outputs[self.along])
        borders = list(itertools.accumulate(self.made, initial=0))
        self.ranges = [self.reach.reads(a, b) for a, b in zip(borders, borders[1:])]
        self.samples, self.channels = generator.randint(1, 2), generator.randint(1, 3)

    def implementation(self) -> UnevenMeshImpl:
        lengths = tuple(b - a for a, b in self.ranges)
        sizes = {"slabs": self.slabs, "read": lengths, "made": self.made}
        devices = ["/device:CPU:0"] * len(self.slabs)
        return UnevenMeshImpl([("devices", len(self.slabs))], dict.fromkeys(sizes, "devices"), devices, sizes)

    def names(self) -> list[str]:
        return ["slabs" if at == self.along else f"space{at}" for at in range(self.rank)]

    def read(self, x: Any, fill: float) -> Any:
        """Return what the processors read of x, padded along the other dimensions."""
        dimension = x.shape.dims[1 + self.along]
        lengths = [b - a for a, b in self.ranges]
        read = exchange_halo(x, dimension, self.ranges, mtf.Dimension("read", sum(lengths)), fill)
        return pool.pad_space(read, [(0, 0) if at == self.along else sides for at, sides in enumerate(self.sides)], fill)

    def made_dimension(self) -> Any:
        return mtf.Dimension("made", self.outputs[self.along])


def gradients_of(y: Any, xs: Sequence[Any], weights: np.ndarray) -> list[Any]:
    weighted = mtf.multiply(mtf.import_tf_tensor(y.mesh, tf.constant(weights), y.shape), mtf.square(y))
    return list(mtf.gradients([mtf.reduce_sum(weighted)], list(xs)))


def run(drawn: Drawn, arrays: Sequence[tuple[np.ndarray, Any]], build: Any, whole: Any) -> None:
    """Check the outputs and gradients of slabs against those of TensorFlow on the whole tensor."""
    with tf.Graph().as_default(), tf.compat.v1.Session(config=quick()) as session:
        values = [tf.constant(array) for array, _ in arrays]
        y = whole(*values)
        weights = np.random.default_rng(9).normal(size=y.shape.as_list())
        wanted = session.run([y, *tf.gradients(tf.reduce_sum(weights * tf.square(y)), values)])
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        tensors = [mtf.import_tf_tensor(mesh, tf.constant(array), dims) for array, dims in arrays]
        made = build(*tensors)
        assert made.shape.to_integer_list == y.shape.as_list()
        outputs = [made, *gradients_of(made, tensors, weights)]
        lowering = Lowering(graph, {mesh: drawn.implementation()})
        found = session.run([lowering.export_to_tf_tensor(output) for output in outputs])
    for got, expected in zip(found, wanted):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-11)


@examples(12, 150)
@example(35290071)  # a stride of 3 for windows of one position, in three dimensions
@given(st.integers(0, 2**32))
def test_convolutions_of_slabs_are_those_of_the_whole(seed: int) -> None:
    drawn, rng = Drawn(seed, dilates=True), np.random.default_rng(seed)
    x = rng.normal(size=[drawn.samples, *drawn.extents, drawn.channels])
    kernel = rng.normal(size=[*drawn.window, drawn.channels, 2])
    dims = shape(batch=drawn.samples, **dict(zip(drawn.names(), drawn.extents)), channels=drawn.channels)
    taps = shape(**{f"tap{at}": n for at, n in enumerate(drawn.window)}, channels=drawn.channels, filters=2)

    def build(value: Any, weights: Any) -> Any:
        extents = [drawn.made_dimension() if at == drawn.along else n for at, n in enumerate(drawn.outputs)]
        return conv.convolve(drawn.read(value, 0.0), weights, extents, drawn.strides, "VALID", drawn.dilation)

    def whole(value: Any, weights: Any) -> Any:
        padding, skips = drawn.padding.upper(), max(s - k for k, s in zip(drawn.window, drawn.strides))
        if drawn.rank == 3 and skips >= 2:  # TensorFlow's SAME of float64 then begins after the first position, but in its gradients
            value, padding = tf.pad(value, [(0, 0), *drawn.sides, (0, 0)]), "VALID"
        return tf.nn.convolution(value, weights, drawn.strides, padding, dilations=drawn.dilation)

    run(drawn, [(x, dims), (kernel, taps)], build, whole)


@examples(8, 80)
@given(st.integers(0, 2**32))
def test_maxima_of_slabs_are_those_of_the_whole(seed: int) -> None:
    drawn, rng = Drawn(seed, dilates=False), np.random.default_rng(seed)
    x = rng.normal(size=[drawn.samples, *drawn.extents, drawn.channels])
    dims = shape(batch=drawn.samples, **dict(zip(drawn.names(), drawn.extents)), channels=drawn.channels)

    def build(value: Any) -> Any:
        slabs = {drawn.along: drawn.made_dimension()}
        return pool.pool(drawn.read(value, -np.inf), "max", drawn.window, drawn.strides, "VALID", slabs)

    def whole(value: Any) -> Any:
        padded = tf.pad(value, [(0, 0), *drawn.sides, (0, 0)], constant_values=tf.constant(-np.inf, tf.float64))
        ends = [(m - 1) * s + 1 for m, s in zip(drawn.outputs, drawn.strides)]
        shifted = []
        for taps in itertools.product(*map(range, drawn.window)):
            at = tuple(slice(tap, tap + end, stride) for tap, end, stride in zip(taps, ends, drawn.strides))
            shifted.append(padded[(slice(None), *at)])
        return tf.reduce_max(tf.stack(shifted), 0)

    run(drawn, [(x, dims)], build, whole)
