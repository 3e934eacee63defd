"""Bytes of each layer of a network, and its parts on the processors of a mesh: what a step keeps, and temporaries."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from hetero_mtf.graph.records import ITEM_BYTES
from hetero_mtf.layers import kind_of
from hetero_mtf.layers.half_precision import casts_weights, gradient_bytes, widens
from hetero_mtf.planning.layout.arrangement import mirrors, trains_before
from hetero_mtf.planning.layout.blocks import output_bytes
from hetero_mtf.planning.layout.records import LayerLayout, Stage
from hetero_mtf.planning.layout.resharding import TensorLayout, output_of
from hetero_mtf.planning.layout.slabs import wanted_of
from hetero_mtf.planning.memory.optimizer_slots import needs_full_variable, slot_sizes
from hetero_mtf.planning.memory.worker_memory import is_kernel
from hetero_mtf.planning.profile.profile import Profile


class NetworkMemory:
    """Bytes that a step keeps of each layer, all parts together, for one network, batch size and optimizer.

    Parameters
    ----------
    profile : Profile; its graph, batch size and optimizer count.

    Attributes
    ----------
    weight_bytes : (layers,) bytes of a layer's weights and of the optimizer slots that are split as they are; 0 for a call that shares
        another's.
    full_slot_bytes : (layers,) bytes of the slots that each processor keeps in full; 0 but for optimizers on full variables.
    updated_bytes : (layers,) bytes of the variables that an optimizer on full variables updates; 0 for other optimizers.
    gradient_bytes, message_bytes : (layers,) bytes of the gradients of its weights, likewise, as they are held and as they are sent.
    kernel_bytes : (layers,) bytes of its largest convolution kernel.
    output_bytes : (layers,) bytes of a layer's output.
    score_bytes : (layers,) bytes of what a layer computes for every pair of positions, see `LayerKind.scores`; mostly 0.
    trains : (layers,) whether a layer has a backward pass.
    needs : (layers,) what its backward pass needs, see `LayerKind.needs`.
    keeps_input : (layers,) whether a layer's backward pass, or that of what reads its input through it, needs its inputs.
    known : results of `stage_memory_bytes`, stage -> (processors,) bytes.

    Notes
    -----
    SGD has a momentum slot and Adam a third slot if the profile's optimizer has the option. O(layers).
    """

    def __init__(self, profile: Profile) -> None:
        graph = profile.graph
        self.graph = graph
        self.known: dict[Stage, tuple[int, ...]] = {}
        self.trains = trains_before(graph)
        self.needs = [kind_of(layer).needs(layer) for layer in graph.layers]
        own = [layer.variables if layer.shared_with is None else () for layer in graph.layers]
        held_as = [layer.variable_item_bytes(graph.dtype) for layer in graph.layers]
        computed_as = [ITEM_BYTES[layer.compute_dtype or graph.dtype] for layer in graph.layers]
        trained = [[v for v in held if v.trainable] for held in own]
        slots = [[slot_sizes(profile.optimizer, v.shape) for v in learnt] for learnt in trained]
        sizes = [sum(v.size for v in held) + sum(split for split, _ in of_layer) for held, of_layer in zip(own, slots)]
        self.weight_bytes = [n * size for n, size in zip(held_as, sizes)]
        self.full_slot_bytes = [n * sum(full for _, full in of_layer) for n, of_layer in zip(held_as, slots)]
        for index, layer in enumerate(graph.layers):
            if casts_weights(layer):
                self.weight_bytes[index] += computed_as[index] * sum(v.size for v in own[index])
        self.gradient_bytes = [n * sum(v.size for v in learnt) for n, learnt in zip(held_as, trained)]
        self.updated_bytes = self.gradient_bytes if needs_full_variable(profile.optimizer) else [0] * len(own)
        self.message_bytes = [gradient_bytes(layer, graph.dtype) if held else 0 for layer, held in zip(graph.layers, own)]
        self.kernel_bytes = [n * max((v.size for v in held if is_kernel(v.shape)), default=0) for n, held in zip(computed_as, own)]
        self.output_bytes = [profile.batch_size * output_bytes(graph, index) for index in range(len(graph.layers))]
        self.score_bytes = [profile.batch_size * n * kind_of(layer).scores(layer) for n, layer in zip(computed_as, graph.layers)]
        self.keeps_input = [False] * len(graph.layers)
        for index in reversed(range(len(graph.layers))):
            self.keeps_input[index] = self._keeps_input(index)

    def _keeps_input(self, index: int) -> bool:
        layer, needs = self.graph.layers[index], self.needs[index]
        if "view" in needs:
            return index in self.graph.outputs or any(self.keeps_input[reader] for reader in self.graph.readers[index])
        own = any(v.trainable for v in layer.variables) if kind_of(layer).mixes else self.trains[index]
        return own and "input" in needs


class LayerMemory:
    """Bytes of the parts of layers on the processors of a mesh.

    Parameters
    ----------
    stage : its devices and axes count, and the layouts of a layer's neighbours as far as it has them.

    Notes
    -----
    A Concatenate in slabs counts as kept. In fact a step keeps its inputs, most of which are kept for others too (`halo.read_again`).
    """

    def __init__(self, memory: NetworkMemory, stage: Stage) -> None:
        self.memory = memory
        self._layouts = {entry.layer: entry for entry in stage.layouts}
        self._places = {axis: np.array(stage.places(axis)) for axis, _ in stage.axes}
        self._processors = len(stage.devices)
        self._nothing = np.zeros(self._processors)
        self._shares: dict[TensorLayout, np.ndarray] = {}

    def layer_bytes(self, entry: LayerLayout) -> np.ndarray:
        """Return the (processors,) bytes that a layer keeps through a step; those of layers add up.

        Its weights and optimizer slots, see `held_weights`; its output, where a backward pass needs it, as its scores; and its resharded
        inputs that are kept.

        Parameters
        ----------
        entry : the layer's layout.

        Notes
        -----
        Where the stage has the readers' layouts, an output that is needed in other layouts only is not kept, and what is resharded for
        several readers counts for the first. Else the output is taken to be read in its own layout, and copies in other layouts can be
        added by `moved_bytes`. A view, such as a Flatten, is its input's memory.
        """
        index = entry.layer
        held = self.held_weights(entry)
        layer = self.memory.graph.layers[index]
        inner = kind_of(layer).inner(layer) if "inner" in self.memory.needs[index] and self.memory.trains[index] else 0.0
        widened = 2.0 if widens(layer) and self.memory.trains[index] and "input" in self.memory.needs[index] else 0.0
        tensors = self._is_kept(entry) + inner + widened
        if tensors:
            held = held + tensors * self.moved_bytes(index, output_of(entry))
        if self.memory.trains[index]:
            held = held + self.score_bytes(entry)
        for source in dict.fromkeys(self.memory.graph.layers[index].inputs):
            if self._keeps_copy(entry, source) and not self._mirrors(entry, source):
                wanted, own = self._wanted(entry, source), self._held_of(entry, source)
                held = held + np.maximum(self.moved_bytes(source, wanted) - (self.moved_bytes(source, own) if own else 0.0), 0.0)
        return held

    def held_weights(self, entry: LayerLayout) -> np.ndarray:
        """Return the (processors,) bytes of a layer's weights and slots, and of what waits for the end of a step.

        That is the gradients of weights where the batch or space is split, and what is gathered, see `gathered_bytes`.

        Parameters
        ----------
        entry : the layer's layout.
        """
        held = self.weights(entry, self.memory.weight_bytes) + self.memory.full_slot_bytes[entry.layer] + self.gathered_bytes(entry)
        return held + self.weights(entry, self.memory.gradient_bytes) if entry.copied_along else held

    def gathered_bytes(self, entry: LayerLayout) -> float:
        """Return the bytes of a split layer's weights and their gradients that each processor gathers for an optimizer on full variables.

        Parameters
        ----------
        entry : the layer's layout.
        """
        return 2.0 * self.memory.updated_bytes[entry.layer] if entry.sizes else 0.0

    def weights(self, entry: LayerLayout, of_layers: Sequence[float]) -> np.ndarray:
        """Return the (processors,) bytes of something that is split as a layer's weights are.

        Parameters
        ----------
        entry : the layer's layout.
        of_layers : (layers,) bytes of all parts.
        """
        full_bytes = of_layers[entry.layer]
        return self._slices(full_bytes, TensorLayout(entry.sizes, entry.axis if entry.sizes else "")) if full_bytes else self._nothing

    def moved_bytes(self, source: int, tensor_layout: TensorLayout) -> np.ndarray:
        """Return the (processors,) bytes of a layer's output in a layout.

        Parameters
        ----------
        source : index of the layer.
        """
        return self._slices(self.memory.output_bytes[source], tensor_layout)

    def score_bytes(self, entry: LayerLayout) -> np.ndarray:
        """Return the (processors,) bytes of a layer's scores of the samples there.

        Parameters
        ----------
        entry : the layer's layout.
        """
        full_bytes = self.memory.score_bytes[entry.layer]
        tensor_layout = TensorLayout((), "", entry.samples, entry.batch_axis if entry.samples else "")
        return self._slices(full_bytes, tensor_layout) if full_bytes else self._nothing

    def temporary_bytes(self, entry: LayerLayout) -> np.ndarray:
        """Return the (processors,) bytes that a layer's passes need besides: the larger of the forward and the backward pass.

        Backward, the gradients of its output, of its inputs, of its scores before and behind the softmax and what they are computed from,
        of its weights twice, as the next layer's are computed meanwhile, inputs that are joined with their halos again or the padded
        gradient of the output instead (`mirrors`), and what its kind computes with (`LayerKind.temporaries`);
        forward, a row's partial sums, those of others, and their sum.

        Parameters
        ----------
        entry : the layer's layout.
        """
        memory = self.memory
        if not memory.trains[entry.layer] or "view" in memory.needs[entry.layer]:
            return self._nothing
        output = self.moved_bytes(entry.layer, output_of(entry))
        temporaries = getattr(kind_of(memory.graph.layers[entry.layer]), "temporaries", 0)
        held: np.ndarray = (1 + temporaries) * output + 3 * self.score_bytes(entry)
        held = held + (0.0 if entry.copied_along else 2 * self.weights(entry, memory.gradient_bytes))
        for source in dict.fromkeys(memory.graph.layers[entry.layer].inputs):
            wanted = self._wanted(entry, source)
            if memory.trains[source]:
                held = held + self.moved_bytes(source, wanted)
            if self._mirrors(entry, source):
                held = held + output
            elif memory.keeps_input[entry.layer] and self._held_of(entry, source) is not None:
                held = held + self.moved_bytes(source, wanted)
        return np.maximum(held, 3 * output) if entry.layout == "row" else held

    def in_flight_bytes(self, entry: LayerLayout) -> np.ndarray:
        """Return the (processors,) bytes of the largest tensor that is sent for a layer: sums, and resharded inputs.

        Parameters
        ----------
        entry : the layer's layout.
        """
        memory = self.memory
        largest = self.moved_bytes(entry.layer, output_of(entry)) if entry.layout == "row" else self._nothing
        if entry.layout == "split":
            largest = self.score_bytes(entry)
        for source in memory.graph.layers[entry.layer].inputs:
            wanted = self._wanted(entry, source)
            summed = entry.layout == "column" and memory.trains[source]
            held = output_of(self._layouts[source]) if source in self._layouts else wanted
            if summed or held != wanted:
                moved = self.moved_bytes(source, wanted)
                beside = self.moved_bytes(source, held) if held.slab_axis and held.slab_axis == wanted.slab_axis else self._nothing
                largest = np.maximum(largest, moved - np.minimum(beside, moved))  # of slabs the halo alone is sent
        return largest

    def _is_kept(self, entry: LayerLayout) -> bool:
        index, memory = entry.layer, self.memory
        if "view" in memory.needs[index]:
            return False
        if index in memory.graph.outputs or ("output" in memory.needs[index] and memory.trains[index]):
            return True
        readers = [reader for reader in memory.graph.readers[index] if memory.keeps_input[reader]]
        own = output_of(entry)
        of_readers = [self._layouts.get(reader) for reader in readers]
        return any(each is None or self._wanted(each, index) == own or self._held_of(each, index) is not None for each in of_readers)

    def _keeps_copy(self, entry: LayerLayout, source: int) -> bool:
        """Return whether a layer's input is a resharded copy that is kept, and this layer the first that it is kept for."""
        wanted, keeps = self._wanted(entry, source), self.memory.keeps_input
        if source not in self._layouts or output_of(self._layouts[source]) == wanted or not keeps[entry.layer]:
            return False
        before = [reader for reader in self.memory.graph.readers[source] if reader < entry.layer and keeps[reader]]
        return all(reader not in self._layouts or self._wanted(self._layouts[reader], source) != wanted for reader in before)

    def _held_of(self, entry: LayerLayout, source: int) -> TensorLayout | None:
        """Return the slabs of an input that a layer reads with a halo, which is kept beside them; None where it reads a copy."""
        if source not in self._layouts:
            return None
        own, wanted = output_of(self._layouts[source]), self._wanted(entry, source)
        alike = bool(own.slab_axis) and dataclasses.replace(own, slabs=wanted.slabs, extent=wanted.extent) == wanted
        return own if alike and own != wanted else None

    def _mirrors(self, entry: LayerLayout, source: int) -> bool:
        """Return whether a layer's backward pass reads the slab of an input alone."""
        own = self._held_of(entry, source)
        return own is not None and own.slabs == output_of(entry).slabs and mirrors(self.memory.graph, entry.layer)

    def _wanted(self, entry: LayerLayout, source: int) -> TensorLayout:
        return wanted_of(self.memory.graph, entry, source)

    def _slices(self, full_bytes: float, tensor_layout: TensorLayout) -> np.ndarray:
        """Return the bytes of each processor's slice of a tensor."""
        if tensor_layout not in self._shares:
            share = np.ones(self._processors)
            for axis in tensor_layout.by_axis:
                share *= np.take(tensor_layout.fractions(axis), self._places[axis])
            self._shares[tensor_layout] = share
        return full_bytes * self._shares[tensor_layout]
