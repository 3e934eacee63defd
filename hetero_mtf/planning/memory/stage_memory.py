"""Bytes a stage of several holds on each device: its weights, and activations of the microbatches that are in flight."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from hetero_mtf.planning.layout.records import LayerLayout, Stage
from hetero_mtf.planning.layout.resharding import input_of
from hetero_mtf.planning.memory.step_memory import Memory, StageMemory
from hetero_mtf.planning.memory.worker_memory import scratch_bytes, worker_bytes
from hetero_mtf.planning.profile.profile import Profile


@dataclasses.dataclass(frozen=True)
class StageBytes:
    """Bytes of one stage.

    Parameters
    ----------
    fixed : (processors,) weights, optimizer slots and the gradients that are added up over the microbatches.
    kept : (processors,) what a microbatch in flight keeps between its two passes.
    temporary : (processors,) what a task needs besides while it runs.
    beside : (processors,) what the process takes beside tensors.
    """

    fixed: np.ndarray
    kept: np.ndarray
    temporary: np.ndarray
    beside: np.ndarray

    def peak(self, in_flight: int) -> tuple[int, ...]:
        """Return the (processors,) bytes held at most.

        Parameters
        ----------
        in_flight : most microbatches whose forward pass is begun and whose backward pass is not done.
        """
        return tuple(math.ceil(held) for held in self.fixed + in_flight * self.kept + self.temporary + self.beside)


def stage_bytes(profile: Profile, stage: Stage, recompute: bool = False, memory: Memory | None = None) -> StageBytes:
    """Return what a stage of a pipeline holds.

    Parameters
    ----------
    profile : Profile at the batch size of a microbatch; its graph and optimizer count too.
    stage : Stage.
    recompute : whether only what comes from other stages is kept, and the rest computed again.
    memory : Memory of the profile, where it is at hand.

    Notes
    -----
    By the rules of `stage_memory_bytes`, for part of the network. O(layers * processors).
    """
    memory = memory or Memory(profile)
    held, none = StageMemory(memory, stage), np.zeros(len(stage.devices))
    weights, gradients, kept, arriving = none.copy(), none.copy(), none.copy(), none.copy()
    temporary, largest, kernel, moved = none.copy(), none.copy(), none.copy(), none.copy()
    inside = {entry.layer for entry in stage.layouts}
    for entry in stage.layouts:
        own, grown = held.weights(entry, memory.weight_bytes), held.weights(entry, memory.gradient_bytes)
        weights, gradients = weights + own, gradients + grown
        kept += held.layer_bytes(entry) - own - (grown if entry.samples else 0.0)
        arriving += _arriving(held, entry, inside)
        temporary = np.maximum(temporary, held.temporary_bytes(entry))
        largest, kernel = np.maximum(largest, grown), np.maximum(kernel, held.weights(entry, memory.kernel_bytes))
        moved = np.maximum(moved, held.in_flight_bytes(entry))
    beside = worker_bytes(profile, stage, weights, largest, np.maximum(moved, gradients)) + scratch_bytes(kernel)
    if recompute:
        return StageBytes(weights + gradients, arriving, temporary + kept, beside)
    return StageBytes(weights + gradients, kept + arriving, temporary, beside)


def _arriving(held: StageMemory, entry: LayerLayout, inside: set[int]) -> np.ndarray:
    """Return the bytes that a layer's backward pass keeps of what other stages sent, where it is the first of the stage to do so."""
    memory, arriving = held.memory, np.zeros(1)
    if not memory.keeps_input[entry.layer]:
        return arriving
    for source in dict.fromkeys(memory.graph.layers[entry.layer].inputs):
        before = [
            reader for reader in memory.graph.readers[source] if reader in inside and reader < entry.layer and memory.keeps_input[reader]
        ]
        if source not in inside and not before:
            arriving = arriving + held.moved_bytes(source, input_of(entry))
    return arriving
