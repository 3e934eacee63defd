"""TaskOrder order what a device computes, not what moves data, and follow the devices, not the meshes."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hetero_mtf.mesh import Lowering
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.operations.elementwise import activate
from hetero_mtf.mesh.operations.transfer import transfer
from hetero_mtf.mesh.task_order import OrderedTask, TaskOrder
from tests.mesh.running import implementation, shape

DIMENSIONS = shape(a=4)


def _built(devices: tuple[tuple[int, ...], tuple[int, ...]]) -> dict[str, tf.Operation]:
    """Return the operations of three tasks: two functions on the first mesh, then one on the second of what the first task sent there."""
    with tf.Graph().as_default() as tf_graph:
        graph = mtf.Graph()
        first, second = mtf.Mesh(graph, "first"), mtf.Mesh(graph, "second")
        x = mtf.import_tf_tensor(first, tf.zeros([4]), DIMENSIONS)
        begins, made = [], []
        for number, mesh in enumerate((first, first, second)):
            begins.append(OrderedTask(f"task{number}", mesh, len(graph.operations)))
            made.append(activate(transfer(made[0], second) if mesh is second else x, "relu"))
        activate(made[0], "tanh")  # not wanted
        task_order = TaskOrder(begins, {first: devices[0], second: devices[1]}, made)
        impls: dict[Any, Any] = {mesh: implementation([("p", 1)], {}) for mesh in (first, second)}
        Lowering(graph, impls, made, task_order)
        return {operation.name: operation for operation in tf_graph.get_operations()}


def test_a_task_waits_for_the_task_before_on_the_same_device() -> None:
    found = _built(((0,), (1,)))
    (end,) = (operation for name, operation in found.items() if "task_end" in name)
    assert [operation.name for operation in end.control_inputs] == ["task0/relu/Relu"]
    assert found["task1/relu_1/Relu"].control_inputs == [end]
    assert found["task2/relu_2/Relu"].control_inputs == [], "another device, its first task"


def test_meshes_on_one_device_take_turns() -> None:
    found = _built(((0,), (0,)))
    last = found["task2/relu_2/Relu"]
    assert [operation.name for end in last.control_inputs for operation in end.control_inputs] == ["task1/relu_1/Relu"]


def test_what_moves_data_waits_for_nothing_and_what_is_not_wanted_is_left_out() -> None:
    found = _built(((0,), (0,)))
    assert all(not operation.control_inputs for name, operation in found.items() if name.startswith("transfer"))
    assert not any("tanh" in name.lower() for name in found)
