"""TaskOrder: every device works on one task after another, in a given order, while data moves whenever it can.

A task is a run of operations on one mesh, such as the forward pass of a stage for a microbatch. What a processor computes of it
waits, by TensorFlow's control dependencies, for all that its device computes of the task before:

    device 0    stage 0 forward 0 | stage 0 forward 1 | stage 0 backward 0 | ...
                                 end                 end

What only moves data (transfers, all-reduces, gathers) waits for its inputs alone, so it runs beside the computing of other tasks.
All control dependencies lead from earlier tasks to later ones, as all data do: there is no cycle, so no order can deadlock.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import tensorflow as tf

END = "turn_end"  # name of the operation that waits for a task on a device


@dataclasses.dataclass(frozen=True)
class OrderedTask:
    """One task.

    Parameters
    ----------
    name : what its operations' names begin with.
    mesh : mtf.Mesh it runs on.
    first : index of its first operation in the Mesh-TensorFlow graph; it lasts until the next turn's.
    """

    name: str
    mesh: Any
    first: int


@dataclasses.dataclass
class _DeviceProgress:
    """How far a device has got.

    Parameters
    ----------
    gate : what the present task waits for.
    made : tensors that the present task computed.
    """

    gate: Any
    made: list[tf.Tensor]


class TaskOrder:
    """The order of the tasks of a Mesh-TensorFlow graph, kept while it is lowered.

    Parameters
    ----------
    task_order : the tasks, in the order of the graph's operations.
    devices : mesh -> (processors,) what tells the devices apart: processors with the same one take turns.
    wanted : mtf.Tensor and mtf.Operation that every step computes; what none of them needs is not waited for.
    """

    def __init__(self, task_order: Sequence[OrderedTask], devices: Mapping[Any, Sequence[Hashable]], wanted: Sequence[Any]) -> None:
        self.wanted = list(wanted)
        self._devices = devices
        self._starts: dict[int, list[OrderedTask]] = {}
        for turn in task_order:
            self._starts.setdefault(turn.first, []).append(turn)
        self._places: dict[Hashable, _DeviceProgress] = {}
        self.name = ""

    def reach(self, index: int, mesh_to_impl: Mapping[Any, Any]) -> None:
        """Begin the tasks whose first operation is number `index`.

        Parameters
        ----------
        index : index of the operation that is lowered next.
        mesh_to_impl : mesh -> its implementation.
        """
        for turn in self._starts.get(index, ()):
            self.name = f"{turn.name}/"
            with tf.name_scope(turn.name):
                for key, device in zip(self._devices[turn.mesh], mesh_to_impl[turn.mesh].devices):
                    self._begin(key, device)

    def _begin(self, key: Hashable, device: str) -> None:
        place = self._places.setdefault(key, _DeviceProgress(contextlib.nullcontext(), []))
        if place.made:
            with tf.device(device), tf.control_dependencies(place.made):
                end = tf.no_op(END)
            # Entered for one operation after another: TensorFlow then leaves out what an input waits for already.
            self._places[key] = _DeviceProgress(tf.control_dependencies([end]), [])

    def gate(self, mesh: Any, pnum: int) -> Any:
        """Return the context in which processor `pnum` of a mesh computes."""
        place = self._places.get(self._devices[mesh][pnum])
        return place.gate if place else contextlib.nullcontext()

    def add(self, mesh: Any, pnum: int, made: Sequence[tf.Tensor]) -> None:
        """Have the next task of a processor's device wait for tensors."""
        place = self._places.get(self._devices[mesh][pnum])
        if place:
            place.made.extend(made)
