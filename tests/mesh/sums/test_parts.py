"""Parts of an owed sum are reduced together, and only if one is read."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl
from hetero_mtf.mesh.lowering import Lowering
from hetero_mtf.mesh.sums.parts import Parts
from tests.mesh.running import implementation, run, shape


@pytest.mark.parametrize("sizes", [(4, 1), (3, 0, 2), (1, 1, 1, 2)], ids=str)
def test_all_parts_of_a_sum_take_one_all_reduce(sizes: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=(5, 2, 3))
    impl = implementation([("p", len(sizes))], {"batch": "p"}, {"batch": sizes})

    def build(_: mtf.Mesh, tensor: mtf.Tensor) -> list[mtf.Tensor]:  # type: ignore[name-defined]
        return list(Parts(mtf.reduce_sum(tensor, reduced_dim=tensor.shape.dims[0])).outputs)

    with mock.patch.object(UnevenMeshImpl, "allreduce", autospec=True, side_effect=UnevenMeshImpl.allreduce) as spied:
        first, second = run(build, [(x, shape(batch=5, two=2, c=3))], impl)
    assert spied.call_count == 1
    assert np.abs(first - x.sum(0)[0]).max() < 1e-12 and np.abs(second - x.sum(0)[1]).max() < 1e-12


def test_what_nobody_reads_is_not_reduced_and_a_whole_tensor_has_parts_too() -> None:
    impl = implementation([("p", 2)], {"batch": "p"}, {"batch": (2, 1)})
    with tf.Graph().as_default():
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        x = mtf.import_tf_tensor(mesh, tf.ones([3, 2]), shape(batch=3, two=2))
        Parts(mtf.reduce_sum(x, reduced_dim=x.shape.dims[0]))
        whole = Parts(mtf.import_tf_tensor(mesh, tf.constant([3.0, 4.0]), shape(two=2)))
        with mock.patch.object(UnevenMeshImpl, "allreduce", autospec=True) as spied:
            lowering = Lowering(graph, {mesh: impl})
        assert spied.call_count == 0
        with tf.compat.v1.Session() as session:
            assert session.run([lowering.export_to_tf_tensor(part) for part in whole.outputs]) == [3.0, 4.0]
