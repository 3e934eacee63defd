"""The objective of the layout program: seconds of a step as a sum over layers and over the tensors that are sent between them.

    J(s) = sum_l own_l(s_l) + sum_l sent_l(s_l, s_R(l))

over the states s_l of the layers l with readers R(l); `layout_program` states the program and `solve_layouts` defines the terms. With h(s)
the layout of a layer's output and w(s) the layout that a layer needs its inputs in,

    sent_l = sum over the distinct w in {w(s_r): r in R(l)} of  reshard_l(h(s_l) -> w) + back_l(w -> h(s_l))
             + sum over the distinct w of columns in R(l) of  all_reduce_l(w)
             + reshard_l(h(s_l) -> w_out)  if l is an output of the network and no reader needs w_out

where back_l and all_reduce_l are seconds of the gradient, 0 if it is not needed, and w_out does not split channels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from hetero_mtf.layers.half_precision import gradient_bytes
from hetero_mtf.planning.cost.device_ring import Ring
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.arrangement import joins_positions, takes_statistics
from hetero_mtf.planning.layout.records import LayerLayout, Stage
from hetero_mtf.planning.layout.resharding import TensorLayout, output_of, reshardings, weight_gathers
from hetero_mtf.planning.layout.slabs import wanted_of
from hetero_mtf.planning.layout_search.layout_space import LayoutState, Space, flattened, state_of
from hetero_mtf.planning.solvers.elimination import Factor

_Line = tuple[float, float]  # seconds, seconds a byte of the tensor
_UNSPLIT = 0  # number of the layout in which nothing is split


class LayoutCost:
    """The terms of J for one space; `layout_program` defines J.

    `index` is the index of a layer in the network; `held` and `wanted` are numbers of tensor layouts, as `tensor_layout` takes them.
    All results are seconds where nothing else is said.
    """

    def __init__(self, costs: Costs, space: Space) -> None:
        self.costs, self.space, self.graph = costs, space, costs.graph
        self.devices, self._at = np.array(space.devices), np.arange(len(space.devices))
        self.ring = costs.ring(space.devices)
        self._processors_per_device, self._undisturbed = costs.processors_per_device(space.devices), costs.undisturbed(space.devices)
        self._views = flattened(self.graph, costs.counts)
        self._gradient_s_per_byte = self._rate()
        self._bucket_bytes = costs.bucket_bytes(space.devices)
        self._layout_numbers: dict[TensorLayout, int] = {TensorLayout(): _UNSPLIT}
        self._by_number = [TensorLayout()]
        self._held: dict[LayoutState, int] = {}
        self._wanted: dict[tuple[LayoutState, int, int], int] = {}
        self._lines: dict[tuple[int, int], tuple[_Line, _Line]] = {}
        self._tables: dict[tuple[object, ...], np.ndarray] = {}
        self._spent: dict[tuple[int, LayoutState, int | None, bool], float] = {}
        self._sums: dict[float, float] = {}

    def own(self, index: int) -> np.ndarray:
        """Return the (states,) seconds of a layer by itself: its passes, its sum over partial sums, its statistics and gradients."""
        return np.array([self._own_s(index, state) for state in self.space.states[index]])

    def factors(self) -> list[Factor]:
        """Return J as factors over the layers' states: one a layer, and one for each layer and all that read it."""
        factors = [Factor((index,), self.own(index)) for index in range(len(self.graph.layers))]
        for index, readers in enumerate(self.graph.readers):
            if readers or index in self.graph.outputs:
                factors.append(Factor((index, *readers), self.sent(index)))
        return factors

    def scopes(self) -> list[tuple[int, ...]]:
        """Return the scopes of `factors` that are over several layers, without their tables."""
        return [(index, *readers) for index, readers in enumerate(self.graph.readers) if readers]

    def sent(self, index: int) -> np.ndarray:
        """Return the (states, states of the first reader, ...) seconds of all that is sent of a layer's output and its gradient.

        Notes
        -----
        Readers that need the output in the same layout share one resharding, forward and backward, and columns one sum of their
        gradients. Infinite where states are not compatible.
        """
        states, readers = self.space.states[index], self.graph.readers[index]
        leaves = index in self.graph.outputs
        key = (self.costs.alike[index], leaves, self._views.get(index, False), states, *(self._reads(index, reader) for reader in readers))
        if key not in self._tables:
            self._tables[key] = self._sent(index, leaves)
        return self._tables[key]

    def of(self, stage: Stage) -> float:
        """Return J of a stage on the space's devices whose layouts are all in the space; infinite if one is not."""
        choice = self.choice_of(stage)
        return math.inf if choice is None else self.total(choice)

    def choice_of(self, stage: Stage) -> tuple[int, ...] | None:
        """Return the (layers,) index of each layer's state in a stage; None if one is not in the space, or the devices are not its own."""
        states = [state_of(entry) for entry in stage.layouts]
        if stage.devices != self.space.devices or any(state not in legal for state, legal in zip(states, self.space.states)):
            return None
        return tuple(legal.index(state) for state, legal in zip(states, self.space.states))

    def total(self, choice: Sequence[int]) -> float:
        """Return J of a choice of states; infinite if they are not compatible.

        Parameters
        ----------
        choice : (layers,) index of each layer's state.
        """
        seconds = [self._own_s(index, states[at]) for index, (states, at) in enumerate(zip(self.space.states, choice))]
        for index, readers in enumerate(self.graph.readers):
            if readers or index in self.graph.outputs:
                chosen = self.space.states[index][choice[index]]
                seconds.append(self._sent_s(index, chosen, [(reader, self.space.states[reader][choice[reader]]) for reader in readers]))
        return math.fsum(seconds)

    def _sent_s(self, index: int, state: LayoutState, others: Sequence[tuple[int, LayoutState]]) -> float:
        """Return one entry of `sent`, for readers in certain states."""
        if not all(self.goes_with(index, state, other) for _, other in others):
            return math.inf
        held, wanted = self.held(state), {self.wanted(other, index, reader) for reader, other in others}
        seconds, left = sum(sum(self.reshard_s(index, held, want)) for want in wanted), self.left_as(held)
        if index in self.graph.outputs and left not in wanted:
            seconds += self.reshard_s(index, held, left)[0]
        if not self.costs.trains_before[index]:
            return seconds
        columns = {self.wanted(other, index, reader) for reader, other in others if other.layout == "column"}
        return seconds + sum(self.sum_s(index, want) for want in columns)

    def held(self, state: LayoutState) -> int:
        """Return the number of the layout of a layer's output in a state."""
        if state not in self._held:
            # any index and name: the layout of a tensor depends on the state alone
            self._held[state] = self._number(output_of(self.space.entry(0, "", state)))
        return self._held[state]

    def wanted(self, state: LayoutState, source: int, reader: int) -> int:
        """Return the number of the layout in which a reader in a state needs an input.

        Parameters
        ----------
        state : of the reader.
        source, reader : indices of the layer that is read, and of the one that reads it.
        """
        key = (state, source, reader) if state.slabs else (state, 0, 0)  # what windows read of slabs depends on the layer
        if key not in self._wanted:
            self._wanted[key] = self._number(wanted_of(self.graph, self.space.entry(reader, "", state), source))
        return self._wanted[key]

    def left_as(self, held: int) -> int:
        """Return the number of the layout in which an output leaves the network: its channels are not split."""
        return self._number(self.tensor_layout(held).whole_channels)

    def tensor_layout(self, number: int) -> TensorLayout:
        """Return the layout with a number.

        Parameters
        ----------
        number : as `held`, `wanted` and `left_as` return it.
        """
        return self._by_number[number]

    def reshard_s(self, index: int, held: int, wanted: int) -> _Line:
        """Return the seconds of resharding a layer's output, and of resharding its gradient back.

        Parameters
        ----------
        held, wanted : numbers of the layouts before and after.
        """
        if (held, wanted) not in self._lines:
            path = reshardings(self.tensor_layout(held), self.tensor_layout(wanted)) if held != wanted else []
            passes = (path, [move.reverse for move in reversed(path)])
            # Ring.reshard_s is a line in the bytes: two sizes give its latency and its seconds a byte
            first, second = (tuple(math.fsum(self.ring.reshard_s(m, n) for m in steps) for n in (0.0, 1e9)) for steps in passes)
            self._lines[held, wanted] = (first[0], (first[1] - first[0]) / 1e9), (second[0], (second[1] - second[0]) / 1e9)
        forward, backward = self._lines[held, wanted]
        full_bytes = self.output_bytes(index)
        trains = self.costs.trains_before[index]
        return forward[0] + forward[1] * full_bytes, (backward[0] + backward[1] * full_bytes) if trains else 0.0

    def sum_s(self, index: int, tensor_layout: int) -> float:
        """Return the seconds of an all-reduce of a layer's output, or of its gradient.

        Parameters
        ----------
        tensor_layout : number of the layout of the sum; its channels are not split.
        """
        return self.reduce_s(self.output_bytes(index), tensor_layout)

    def reduce_s(self, full_bytes: float, tensor_layout: int) -> float:
        """Return the seconds of an all-reduce of a tensor.

        Parameters
        ----------
        full_bytes : bytes of the full tensor.
        tensor_layout : number of its layout; its channels are not split.
        """
        # on one axis the layout does not matter; GridCost needs it for the part that each group holds
        return self._all_reduce_s(full_bytes)

    def output_bytes(self, index: int) -> float:
        """Return the bytes of a layer's output, all parts together."""
        return self.costs.memory.output_bytes[index]

    def goes_with(self, index: int, state: LayoutState, other: LayoutState) -> bool:
        """Return whether a layer in a state may be read by a layer in another.

        Parameters
        ----------
        index : index of the layer that is read.
        state : its state.
        other : the reader's.

        Notes
        -----
        An output that is split by channels is read in the same sizes, or gathered by a layer that does not split it; a flattened
        one is read in the same sizes only.
        """
        split = state.layout in ("column", "split")
        reads_split = other.layout in ("row", "split")
        if not split:
            return True
        if reads_split:
            return state.sizes == other.sizes
        return not (state.layout == "split" and self._views.get(index, False))

    def kinds(self, index: int, reader: int) -> tuple[list[list[int]], list[list[int]]]:
        """Return the states in groups of equal communication: a layer's by its output's layout, a reader's by the layout it needs.

        Parameters
        ----------
        index : index of the layer that is read.
        reader : index of one that reads it.

        Returns
        -------
        Indices of the states of the layer, and of the reader, a list a group.
        """
        view = self._views.get(index, False)
        sources: dict[object, list[int]] = {}
        wants: dict[object, list[int]] = {}
        for at, state in enumerate(self.space.states[index]):
            sources.setdefault((self.held(state), view and state.layout == "split"), []).append(at)
        for at, state in enumerate(self.space.states[reader]):
            wants.setdefault(self.wanted(state, index, reader), []).append(at)
        return list(sources.values()), list(wants.values())

    def _number(self, tensor_layout: TensorLayout) -> int:
        if tensor_layout not in self._layout_numbers:
            self._layout_numbers[tensor_layout] = len(self._by_number)
            self._by_number.append(tensor_layout)
        return self._layout_numbers[tensor_layout]

    def _reads(self, index: int, reader: int) -> tuple[object, ...]:
        return self.space.states[reader], tuple(self.wanted(state, index, reader) for state in self.space.states[reader] if state.slabs)

    def _sent(self, index: int, leaves: bool) -> np.ndarray:
        states, readers = self.space.states[index], self.graph.readers[index]
        shape = (len(states), *(len(self.space.states[reader]) for reader in readers))
        total = np.zeros(shape)
        # infinite where states are not compatible; then the three lines of sent_l: a layout is charged once, however many readers need it,
        # so the terms are taken by layout, and not by reader, of which each would be charged
        by_reader = [self.space.states[reader] for reader in readers]
        needs = [[self.wanted(state, index, reader) for state in states] for states, reader in zip(by_reader, readers)]
        for at, theirs in enumerate(by_reader):
            legal = np.array([[self.goes_with(index, state, other) for other in theirs] for state in states])
            total = total + np.where(spread(legal, (0, at + 1), len(shape)), 0.0, np.inf)
        all_wanted = sorted({wanted for theirs in needs for wanted in theirs})
        held = [self.held(state) for state in states]
        left = [self.left_as(h) if leaves else -1 for h in held]
        for wanted in sorted({*all_wanted, *(w for w in left if w >= 0)}):
            total = total + self._resharded(index, wanted, held, left, needs)
        if self.costs.trains_before[index]:
            columns = [[other.layout == "column" for other in theirs] for theirs in by_reader]
            for wanted in sorted({w for of, theirs in zip(columns, needs) for column, w in zip(of, theirs) if column}):
                summed = [np.array([column and w == wanted for column, w in zip(of, theirs)]) for of, theirs in zip(columns, needs)]
                total = total + np.where(any_reader(summed, len(shape)), self.sum_s(index, wanted), 0.0)
        return total

    def _resharded(self, index: int, wanted: int, held: Sequence[int], left: Sequence[int], needs: Sequence[Sequence[int]]) -> np.ndarray:
        """Return the seconds of resharding an output to one layout, where a reader needs it or the output leaves the network in it."""
        rank = len(needs) + 1
        lines = {h: self.reshard_s(index, h, wanted) for h in dict.fromkeys(held)}
        forward_s, backward_s = (np.array(line) for line in zip(*(lines[h] for h in held)))
        read = any_reader([np.array(theirs) == wanted for theirs in needs], rank)
        leaves = spread(np.array(left) == wanted, (0,), rank)
        seconds: np.ndarray = np.where(read | leaves, spread(forward_s, (0,), rank), 0.0) + np.where(
            read, spread(backward_s, (0,), rank), 0.0
        )
        return seconds

    def _own_s(self, index: int, state: LayoutState) -> float:
        seconds = self._passes_s(index, state)
        if state.layout == "row":  # forward only: the gradient of a sum goes to every part as it is
            seconds += self.sum_s(index, self.held(state))
        # forward the scores, and if the layer needs a gradient those of the scores backward
        if state.layout == "split" and (score_bytes := self.costs.memory.score_bytes[index]):
            seconds += (1 + self.costs.trains_before[index]) * self.reduce_s(score_bytes, self.left_as(self.held(state)))
        return seconds + self._batch_s(index, state) + self._gathers_s(index, state)

    def _batch_s(self, index: int, state: LayoutState) -> float:
        """Return the seconds of the collectives of a split batch, or of slabs: statistics and gradients."""
        layer, trains = self.graph.layers[index], self.costs.trains_before[index]
        if state.layout not in ("batch", "space"):
            return 0.0
        seconds = 0.0
        if state.layout == "space" and joins_positions(layer):
            statistics = 3 * self.costs.profile.batch_size * layer.units * self.graph.item_bytes
            seconds += (1 + trains) * self.ring.all_gather_s(len(self.devices) * statistics)
        if takes_statistics(layer):
            statistics = 2 * layer.units * self.graph.item_bytes
            seconds += self.ring.all_gather_s(len(self.devices) * statistics) + (self._all_reduce_s(statistics) if trains else 0.0)
        # every bucket is handed to each of the p - 1 others; the part h of it all that computing hides is not charged
        messages_s = (len(self.devices) - 1) * self.costs.message_s * self.costs.messages(index, self._bucket_bytes)
        gradients_s = messages_s + self._gradient_s_per_byte * self._trained_bytes((index,))
        return seconds + (1 - self.costs.hidden) * gradients_s

    def _gathers_s(self, index: int, state: LayoutState) -> float:
        """Return the seconds of gathering a split layer's weights and their gradients, for an optimizer that updates full variables."""
        full_bytes = self.costs.gathered_bytes[index]
        moves = weight_gathers(self.space.entry(index, "", state)) if full_bytes else ()
        # 2: the weights, and their gradients; the groups gather at the same time, so the slowest of them counts
        return 2 * math.fsum(max(ring.reshard_s(move, full_bytes) for ring in self._filter_rings()) for move in moves)

    def _filter_rings(self) -> Sequence[Ring]:
        """Return the links of each group of devices that share the channels of a layer."""
        return [self.ring]

    def _passes_s(self, index: int, state: LayoutState) -> float:
        """Return the seconds of a layer's passes on the device that is charged."""
        place = self.space.slowest.get((index, state))
        key = (self.costs.alike[index], state, place, self.graph.owner(index) == index)
        if key not in self._spent:
            entry = self.space.entry(index, "", state)
            sizes, samples = self._parts(state)
            sizes = self.costs.measured_positions(entry, np.array(state.slabs)) if state.slabs else sizes
            passes = ["forward"] + ["backward"] * self.costs.trains_before[index]
            spent = sum((self._spent_s(entry, sizes, samples, step_pass) for step_pass in passes), np.zeros(len(sizes)))
            updates = self._spent_s(entry, sizes, samples, "update") if key[-1] else np.zeros(len(sizes))
            place = int((spent + updates).argmax()) if place is None else place
            # a split batch updates all weights on every device: the slowest update counts
            self._spent[key] = float(spent[place] + (updates.max() if state.layout in ("batch", "space") else updates[place]))
        return self._spent[key]

    def _spent_s(self, entry: LayerLayout, sizes: np.ndarray, samples: np.ndarray, step_pass: str) -> np.ndarray:
        """Return the (devices,) seconds of a pass; those on one TensorFlow device run one after another."""
        part = np.where(self._undisturbed, self.costs.tables.alone_part(entry.layer, step_pass, entry.layout)[self.devices], 1.0)
        seconds: np.ndarray = self.costs.spent(entry, self.devices, sizes, samples, step_pass) * part * self._processors_per_device
        return seconds

    def _parts(self, state: LayoutState) -> tuple[np.ndarray, np.ndarray]:
        """Return the (devices,) units and the (devices,) samples of a state, either of which may be unused in it."""
        none = [0] * len(self.devices)
        return np.array(state.sizes or none), np.array(state.samples or none)

    def _all_reduce_s(self, full_bytes: float) -> float:
        if full_bytes not in self._sums:
            self._sums[full_bytes] = self.ring.all_reduce_s(full_bytes)
        return self._sums[full_bytes]

    def _rate(self) -> float:
        """Return the seconds a byte of one all-reduce of all gradients."""
        # the latency of one all-reduce over all bytes: then each layer's part depends on its own state only, and J stays a sum over layers
        full_bytes = self._trained_bytes(range(len(self.graph.layers)))
        return self.ring.all_reduce_s(full_bytes) / full_bytes if full_bytes else 0.0

    def _trained_bytes(self, layers: Iterable[int]) -> float:
        owners = [self.graph.layers[i] for i in layers if self.graph.owner(i) == i]
        return sum(gradient_bytes(layer, self.graph.dtype) for layer in owners)


def spread(values: np.ndarray, axes: Sequence[int], rank: int) -> np.ndarray:
    """Return an array whose dimensions are these of `rank`, the others 1.

    Parameters
    ----------
    values : array.
    axes : (its dimensions,) which of the dimensions each is.
    rank : number of dimensions.
    """
    shape = [1] * rank
    for axis, extent in zip(axes, values.shape):
        shape[axis] = extent
    return values.reshape(shape)


def any_reader(masks: Sequence[np.ndarray], rank: int) -> np.ndarray:
    """Return where any reader's mask holds; the reader at place k has dimension k + 1.

    Parameters
    ----------
    masks : for each reader, (its states,) whether it counts.
    rank : number of dimensions: one for the layer that is read, and one a reader.
    """
    mask_of_any = np.zeros([1] * rank, bool)
    for at, mask in enumerate(masks):
        mask_of_any = mask_of_any | spread(mask, (at + 1,), rank)
    return mask_of_any
