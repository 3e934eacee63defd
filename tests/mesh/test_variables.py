"""Variables in slices: one layout a name, whole values in and out, writes that skip empty slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh import Lowering
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.variables import Parameter, SliceVariables, Update, assign
from tests.mesh.running import implementation, shape

DIMS = {"a": 2, "c": 6}


def _impl(*sizes: int) -> Any:
    return implementation([("p", len(sizes))], {"c": "p"}, {"c": sizes})


def test_a_name_has_one_layout() -> None:
    with tf.Graph().as_default():
        variables = SliceVariables("box")
        handles = variables.handles("v", shape(**DIMS), tf.float32, _impl(4, 2))
        assert variables.handles("v", shape(**DIMS), tf.float32, _impl(4, 2)) is handles
        assert variables.names() == ["v"] and variables.layout("v")[2:] == (tf.float32, handles)
        assert [[d.size for d in h.op.get_attr("shape").dim] for h in handles] == [[2, 4], [2, 2]]
        assert {h.op.get_attr("container") for h in handles} == {b"box"}
        for other in (_impl(3, 3), _impl(6, 0), _impl(2, 2, 2)):
            with pytest.raises(LayoutError, match="variable v exists as .* and is asked for as .* in other slices; use one layout for it"):
                variables.handles("v", shape(**DIMS), tf.float32, other)


@pytest.mark.parametrize("sizes", [(6,), (4, 2), (5, 0, 1), (0, 6, 0)], ids=str)
def test_an_assigned_value_is_read_in_the_next_step_and_not_before(sizes: tuple[int, ...]) -> None:
    with tf.Graph().as_default():
        graph, variables = mtf.Graph(), SliceVariables("assigned")
        mesh = mtf.Mesh(graph, "mesh")
        parameter = Parameter(mesh, variables, "v", shape(**DIMS), tf.float64)
        update = assign(parameter, parameter.value * 2.0 + 1.0)
        lowering = Lowering(graph, {mesh: _impl(*sizes)})
        assert len(lowering.operations[update]) == sum(n > 0 for n in sizes)
        value = lowering.export_to_tf_tensor(parameter.value)
        handles = variables.layout("v")[3]
        pieces = zip(handles, sizes)
        start = [tf.raw_ops.AssignVariableOp(resource=h, value=tf.ones([2, n], tf.float64)) for h, n in pieces]
        with tf.compat.v1.Session() as session:
            session.run(start)
            found = [session.run([value, lowering.operations[update]])[0] for _ in range(3)]
    for step, array in enumerate(found):
        np.testing.assert_array_equal(array, np.full((2, 6), 2.0 ** (step + 1) - 1))


def test_neither_a_snapshot_nor_a_write_has_a_gradient() -> None:
    graph = mtf.Graph()
    parameter = Parameter(mtf.Mesh(graph, "mesh"), SliceVariables(""), "v", shape(**DIMS), tf.float32)
    update = Update([parameter], [], lambda handles, snapshots, inputs: [], "nothing")
    assert not parameter.has_gradient and not update.has_gradient
