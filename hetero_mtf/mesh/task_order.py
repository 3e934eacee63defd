"""TaskOrder: every device computes one task after another, in a given order, while communication runs whenever it can.

A task is a run of operations on one mesh, such as the forward pass of a stage for a microbatch. A processor's operations of a task
wait, by TensorFlow's control dependencies, for all operations of the task before on its device:

    device 0    stage 0 forward 0 | stage 0 forward 1 | stage 0 backward 0 | ...
                                 end                 end

Communication (transfers, all-reduces, gathers) waits for its inputs alone, so it overlaps with the compute of other tasks.
All control dependencies lead from earlier tasks to later ones, as all data do: there is no cycle, so no order can deadlock.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl

TASK_END = "task_end"  # name of the operation that waits for a task on a device


@dataclasses.dataclass(frozen=True)
class OrderedTask:
    """One task.

    Parameters
    ----------
    name : prefix of the names of its operations.
    mesh : mtf.Mesh it runs on.
    first : index of its first operation in the Mesh-TensorFlow graph; it lasts until the next task's.
    """

    name: str
    mesh: mtf.Mesh
    first: int


@dataclasses.dataclass
class _DeviceProgress:
    """The present task of a device.

    Parameters
    ----------
    gate : context of its operations, which makes them wait for the task before.
    computed : tensors that it has computed.
    """

    gate: Any
    computed: list[tf.Tensor]


class TaskOrder:
    """The order of the tasks of a Mesh-TensorFlow graph, enforced while it is lowered.

    Parameters
    ----------
    task_order : the tasks, in the order of the graph's operations.
    devices : mesh -> (processors,) identifiers of their devices; processors with the same one compute one task at a time.
    targets : mtf.Tensor and mtf.Operation that every step computes; tasks do not wait for what none of them needs.
    """

    def __init__(
        self, task_order: Sequence[OrderedTask], devices: Mapping[mtf.Mesh, Sequence[Hashable]], targets: Sequence[Tensor | mtf.Operation]
    ) -> None:
        self.targets = list(targets)
        self._devices = devices
        self._starts: dict[int, list[OrderedTask]] = {}
        for task in task_order:
            self._starts.setdefault(task.first, []).append(task)
        self._progress: dict[Hashable, _DeviceProgress] = {}
        self.name = ""

    def reach(self, index: int, mesh_to_impl: Mapping[mtf.Mesh, UnevenMeshImpl]) -> None:
        """Begin the tasks whose first operation is number `index`.

        Parameters
        ----------
        index : index of the operation that is lowered next.
        mesh_to_impl : mesh -> its implementation.
        """
        for task in self._starts.get(index, ()):
            self.name = f"{task.name}/"
            with tf.name_scope(task.name):
                for key, device in zip(self._devices[task.mesh], mesh_to_impl[task.mesh].devices):
                    self._begin(key, device)

    def _begin(self, key: Hashable, device: str) -> None:
        progress = self._progress.setdefault(key, _DeviceProgress(contextlib.nullcontext(), []))
        if progress.computed:
            with tf.device(device), tf.control_dependencies(progress.computed):
                end = tf.no_op(TASK_END)
            # Entered again for each operation: TensorFlow then leaves out dependencies that an input has already.
            self._progress[key] = _DeviceProgress(tf.control_dependencies([end]), [])

    def gate(self, mesh: mtf.Mesh, pnum: int) -> Any:
        """Return the context in which processor `pnum` of a mesh computes."""
        progress = self._progress.get(self._devices[mesh][pnum])
        return progress.gate if progress else contextlib.nullcontext()

    def add(self, mesh: mtf.Mesh, pnum: int, computed: Sequence[tf.Tensor]) -> None:
        """Make the next task of a processor's device wait for tensors."""
        progress = self._progress.get(self._devices[mesh][pnum])
        if progress:
            progress.computed.extend(computed)
