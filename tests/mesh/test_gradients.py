"""Gradients through a part of a graph are those of the whole, put together."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from hetero_mtf.mesh import Lowering
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.gradients import gradients
from hetero_mtf.mesh.operations.elementwise import activate
from tests.mesh.running import implementation, quick, shape


def test_two_parts_give_the_gradient_of_the_whole() -> None:
    value = np.random.default_rng(0).normal(size=5)
    with tf.Graph().as_default(), tf.compat.v1.Session(config=quick()) as session:
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        x = mtf.import_tf_tensor(mesh, tf.constant(value), shape(a=5))
        middle = mtf.multiply(activate(x, "tanh"), x)
        cut = len(graph.operations)
        end = mtf.reduce_sum(mtf.multiply(activate(middle, "sigmoid"), middle))
        total = len(graph.operations)
        (whole,) = mtf.gradients([end], [x])
        one = mtf.Constant(mesh, 1.0, end.shape, end.dtype).outputs[0]
        (late,) = gradients([end], [one], [middle], graph.operations[cut:total])
        (early,) = gradients([middle], [late], [x], graph.operations[:cut])
        (twice,) = gradients([middle, middle], [late, late], [x], graph.operations[:cut])
        (none,) = gradients([middle], [late], [end], graph.operations[:cut])
        lowering = Lowering(graph, {mesh: implementation([("p", 1)], {})})
        expected, found, double = session.run([lowering.export_to_tf_tensor(t) for t in (whole, early, twice)])
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(double, 2 * expected, rtol=1e-12)
    assert none is None
