"""Counts what a TensorFlow graph sends between devices, without running it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Crossings:
    """What crosses from device to device.

    Parameters
    ----------
    sent_bytes : (source, destination) -> bytes; a tensor goes to a device once, however many read it there.
    rounds : crossings on the path that has most of them.
    empty : crossings of tensors without elements.
    """

    sent_bytes: Mapping[tuple[str, str], int]
    rounds: int
    empty: int

    @property
    def full_bytes(self) -> int:
        return sum(self.sent_bytes.values())


def crossings(graph: tf.Graph) -> Crossings:
    """Return what crosses between the devices that the graph's operations name.

    Parameters
    ----------
    graph : graph all of whose operations are placed; control edges count as crossings of no bytes.
    """
    sent: dict[tuple[str, str], int] = {}
    seen: set[tuple[str, str]] = set()
    depth: dict[str, int] = {}
    empty = 0
    for op in graph.get_operations():  # in the order they were made, inputs first
        assert op.device, f"{op.name} is on no device"
        before = [*(tensor.op for tensor in op.inputs), *op.control_inputs]
        depth[op.name] = max((depth[other.name] + (other.device != op.device) for other in before), default=0)
        for tensor in op.inputs:
            source = tensor.op.device
            if source != op.device and (tensor.name, op.device) not in seen:
                seen.add((tensor.name, op.device))
                sent[source, op.device] = sent.get((source, op.device), 0) + tensor.shape.num_elements() * tensor.dtype.size
                empty += tensor.shape.num_elements() == 0
    return Crossings(sent, max(depth.values(), default=0), empty)
