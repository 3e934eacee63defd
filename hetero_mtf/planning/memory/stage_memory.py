"""Bytes of a stage on each of its devices, for a step of the full network and for microbatches in flight in a pipeline.

On one processor, for each layer l of the stage,

    w_l  bytes of its weights and optimizer slots
    g_l  bytes of the gradients of its weights; sum_B is over the layers that split their batch
    u_l  bytes of its variables in full where an optimizer updates them so, else 0; sum_S is over the layers that are split by channels,
         whose weights and gradients are gathered
    a_l  bytes of the activations that its backward pass needs
    r_l  bytes that it receives from other stages and keeps for its backward pass
    t_l  bytes of the temporaries of its passes

With p bytes of the process beside tensors, a step of the full network takes at most

    max(sum_l w_l + sum_B g_l + 2 sum_S u_l + sum_l a_l + max_l t_l,  sum_l w_l + 2 sum_B g_l + 2 sum_S u_l + e) + p

where the second term is the end of the step: all gradients of a split batch, its own and those of another processor, and, with an optimizer
that updates full variables, e: the other gradients, which wait for their update, and U sum_l u_l, U tensors of the size of every variable
(`UPDATE_TENSORS`). A stage of a pipeline with m microbatches in flight, whose gradients are added up over the microbatches, takes, or
with U sum_l u_l instead of what depends on activations where that is more,

    sum_l w_l + sum_l g_l + 2 sum_S u_l + m sum_l (a_l + r_l) + max_l t_l + p             activations kept
    sum_l w_l + sum_l g_l + 2 sum_S u_l + m sum_l r_l + (sum_l a_l + max_l t_l) + p       activations recomputed
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from hetero_mtf.planning.layout.records import LayerLayout, Stage
from hetero_mtf.planning.layout.resharding import input_of
from hetero_mtf.planning.memory.layer_memory import LayerMemory, NetworkMemory
from hetero_mtf.planning.memory.worker_memory import scratch_bytes, worker_bytes
from hetero_mtf.planning.profile.profile import Profile

# Tensors of a variable's size that are alive at once while an optimizer updates full variables, measured with TensorFlow 2.21 on Lamb and
# Adafactor (`tools/bench/memory.py`): of all variables, as TensorFlow's executor begins every update that has its gradient.
UPDATE_TENSORS = 2


@dataclasses.dataclass(frozen=True)
class StageBytes:
    """Bytes of one stage of a pipeline.

    Parameters
    ----------
    fixed : (processors,) weights, optimizer slots and the gradients that are added up over the microbatches.
    kept : (processors,) what a microbatch in flight keeps between its two passes.
    temporary : (processors,) what a task needs besides while it runs.
    beside : (processors,) what the process takes beside tensors.
    weights : (processors,) one version of the weights that train.
    update : (processors,) what an update of full variables needs besides `fixed`.
    """

    fixed: np.ndarray
    kept: np.ndarray
    temporary: np.ndarray
    beside: np.ndarray
    weights: np.ndarray
    update: np.ndarray

    def peak(self, in_flight: int) -> tuple[int, ...]:
        """Return the (processors,) bytes held at most.

        Parameters
        ----------
        in_flight : most microbatches whose forward pass is begun and whose backward pass is not done.
        """
        passes = np.maximum(in_flight * self.kept + self.temporary, self.update)
        return tuple(math.ceil(held) for held in self.fixed + passes + self.beside)


def stage_memory_bytes(profile: Profile, stage: Stage, memory: NetworkMemory | None = None) -> tuple[int, ...]:
    """Return the bytes each processor of a stage that holds the full network takes at most in one step.

    Parameters
    ----------
    profile : Profile; its graph, batch size and optimizer count.
    memory : NetworkMemory of the profile, where known.

    Notes
    -----
    An estimate from the structure, within 20 % of what workers of emulated clusters take where that is above 500 MB
    (`tools/bench/memory.py`). O(layers * devices).
    """
    memory = memory or NetworkMemory(profile)
    if stage not in memory.known:
        totals = _totals(stage, memory)
        waiting = np.where(totals.update, totals.gradients - totals.split_gradients, 0.0)
        last = totals.weights + 2 * totals.split_gradients + totals.gathered + waiting + totals.update
        tensors = np.maximum(totals.kept + totals.temporary, last)
        beside = totals.beside(profile, stage, totals.split_gradients)
        memory.known[stage] = tuple(math.ceil(held_bytes) for held_bytes in tensors + beside)
    return memory.known[stage]


def stage_bytes(profile: Profile, stage: Stage, recompute: bool = False, memory: NetworkMemory | None = None) -> StageBytes:
    """Return the bytes of a stage of a pipeline.

    Parameters
    ----------
    profile : Profile at the batch size of a microbatch; its graph and optimizer count too.
    recompute : whether only what comes from other stages is kept, and the rest computed again.
    memory : NetworkMemory of the profile, where known.

    Notes
    -----
    O(layers * processors).
    """
    totals = _totals(stage, memory or NetworkMemory(profile))
    fixed, beside = totals.weights + totals.gradients + totals.gathered, totals.beside(profile, stage, totals.gradients)
    if recompute:
        return StageBytes(fixed, totals.received, totals.temporary + totals.activations, beside, totals.gradients, totals.update)
    return StageBytes(fixed, totals.activations + totals.received, totals.temporary, beside, totals.gradients, totals.update)


@dataclasses.dataclass
class _Totals:
    """Sums and maxima over the layers of a stage, (processors,) bytes each.

    Parameters
    ----------
    weights : sum of weights and optimizer slots.
    gradients : sum of the gradients of weights.
    split_gradients : the same over the layers that split their batch or space.
    kept : sum of what layers keep through a step: weights, split gradients and activations.
    activations : sum of the activations that backward passes need.
    received : sum of what comes from other stages and is kept for backward passes.
    temporary : largest temporary of a layer.
    largest_gradient, largest_kernel : the largest of a layer.
    in_flight : largest tensor that is sent for a layer.
    gathered : sum of the weights that are gathered, and of their gradients.
    fetched : the part of the weights that comes from other processors.
    update : temporaries of updates of full variables.
    """

    weights: np.ndarray
    gradients: np.ndarray
    split_gradients: np.ndarray
    kept: np.ndarray
    activations: np.ndarray
    received: np.ndarray
    temporary: np.ndarray
    largest_gradient: np.ndarray
    largest_kernel: np.ndarray
    in_flight: np.ndarray
    gathered: np.ndarray
    fetched: np.ndarray
    update: np.ndarray

    def beside(self, profile: Profile, stage: Stage, sent_gradients: np.ndarray) -> np.ndarray:
        """Return the (processors,) bytes of the process beside tensors."""
        moved: np.ndarray = np.maximum(self.in_flight, sent_gradients + self.fetched)
        beside: np.ndarray = worker_bytes(profile, stage, self.weights, self.largest_gradient, moved) + scratch_bytes(self.largest_kernel)
        return beside


def _totals(stage: Stage, memory: NetworkMemory) -> _Totals:
    layers, inside = LayerMemory(memory, stage), {entry.layer for entry in stage.layouts}
    totals = _Totals(*(np.zeros(len(stage.devices)) for _ in dataclasses.fields(_Totals)))
    for entry in stage.layouts:
        weights = layers.weights(entry, memory.weight_bytes) + memory.full_slot_bytes[entry.layer]
        gradients, gathered = layers.weights(entry, memory.gradient_bytes), layers.gathered_bytes(entry)
        split_gradients = gradients if entry.copied_along else 0.0
        kept = layers.layer_bytes(entry)
        totals.weights += weights
        totals.gradients += gradients
        totals.split_gradients += split_gradients
        totals.kept += kept
        totals.activations += kept - weights - split_gradients - gathered
        totals.gathered += gathered
        totals.fetched += gathered / 2 - gradients if gathered else 0.0
        totals.update += UPDATE_TENSORS * memory.updated_bytes[entry.layer]
        totals.received += _received(layers, entry, inside)
        totals.temporary = np.maximum(totals.temporary, layers.temporary_bytes(entry))
        totals.largest_gradient = np.maximum(totals.largest_gradient, gradients)
        totals.largest_kernel = np.maximum(totals.largest_kernel, layers.weights(entry, memory.kernel_bytes))
        totals.in_flight = np.maximum(totals.in_flight, layers.in_flight_bytes(entry))
    return totals


def _received(layers: LayerMemory, entry: LayerLayout, inside: set[int]) -> np.ndarray:
    """Return the bytes that a layer's backward pass keeps of other stages' outputs, where it is the first of the stage to do so."""
    memory, received = layers.memory, np.zeros(1)
    if not memory.keeps_input[entry.layer]:
        return received
    for source in dict.fromkeys(memory.graph.layers[entry.layer].inputs):
        if source in inside:
            continue
        readers = memory.graph.readers[source]
        if not any(reader in inside and reader < entry.layer and memory.keeps_input[reader] for reader in readers):
            received = received + layers.moved_bytes(source, input_of(entry))
    return received
