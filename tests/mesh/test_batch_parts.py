"""Parts of a batch on unequal meshes: as a whole tensor that is sliced."""

from collections.abc import Sequence

import numpy as np
import pytest
import tensorflow as tf

from hetero_mtf.mesh.batch_parts import BatchArray, import_batch
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl
from hetero_mtf.mesh.lowering import lower

WHOLE = np.arange(6 * 4 * 3, dtype="float32").reshape(6, 4, 3)


def _read(device: str, begins: Sequence[int], extents: Sequence[int]) -> tf.Tensor:
    with tf.device(device):
        return tf.slice(tf.constant(WHOLE), list(begins), list(extents))


def _slices(array: BatchArray | tf.Tensor, sizes: dict[str, tuple[int, ...]], batch: int) -> list[np.ndarray]:
    graph = mtf.Graph()
    mesh = mtf.Mesh(graph, "mesh")
    impl = UnevenMeshImpl([("devices", 3)], dict.fromkeys(sizes, "devices"), ["cpu:0"] * 3, sizes)
    tensor = import_batch(mesh, array, mtf.Shape([mtf.Dimension("batch", batch), mtf.Dimension("space", 4), mtf.Dimension("channels", 3)]))
    lowering = lower(graph, {mesh: impl})
    with tf.compat.v1.Session() as session:
        return list(session.run(lowering.slices(tensor)))


@pytest.mark.parametrize("sizes", [{}, {"batch": (3, 2, 1)}, {"batch": (5, 1, 0)}, {"space": (1, 0, 3)}])
def test_processors_get_the_slices_of_the_whole(sizes: dict[str, tuple[int, ...]]) -> None:
    with tf.Graph().as_default():
        expected = _slices(tf.constant(WHOLE), sizes, 6)
        found = _slices(BatchArray((6, 4, 3), tf.float32, _read), sizes, 6)
    for a, b in zip(expected, found, strict=True):
        assert np.array_equal(a, b)


def test_microbatches_are_the_consecutive_parts_of_the_batch() -> None:
    parts = BatchArray((6, 4, 3), tf.float32, _read).cut([3, 2, 1])
    parts += parts[0].cut([1, 2])
    with tf.Graph().as_default():
        found = [_slices(part, {"batch": (0, 1, part.shape[0] - 1)}, part.shape[0]) for part in parts]
    for slices, (begin, end) in zip(found, [(0, 3), (3, 5), (5, 6), (0, 1), (1, 3)], strict=True):
        assert np.array_equal(np.concatenate(slices), WHOLE[begin:end])
