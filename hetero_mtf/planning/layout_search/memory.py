"""Memory in the layout program: the bytes of each state of a layer on each device, and the free bytes of each pool."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.resharding import output_of
from hetero_mtf.planning.layout.slabs import wanted_of
from hetero_mtf.planning.layout.stage_from_layouts import full_stage
from hetero_mtf.planning.layout_search.layout_space import Space
from hetero_mtf.planning.layout_search.step_objective import any_reader, spread
from hetero_mtf.planning.memory.layer_memory import LayerMemory


@dataclasses.dataclass(frozen=True)
class Pool:
    """Memory that devices of a space draw from.

    Parameters
    ----------
    name : its name.
    places : places in the space of the devices that draw from it.
    free : bytes that are free for what layers keep and for the largest temporary.
    """

    name: str
    places: tuple[int, ...]
    free: float


class LayoutMemory:
    """Bytes of the states of a space. In all methods `index` is the index of a layer, and a pool one of `pools`.

    Parameters
    ----------
    reserved : pool -> bytes to reserve for what does not add up over layers: copies of neighbours' outputs, messages, the runtime.

    Attributes
    ----------
    pools : the pools that devices of the space draw from and whose free bytes are known.

    Notes
    -----
    What a layer keeps is taken from its own state, as if its readers needed its output in its own layout (`LayerMemory.layer_bytes`).
    """

    def __init__(self, costs: Costs, space: Space, reserved: Mapping[str, float]) -> None:
        self.space = space
        free = {pool.name: pool.free_bytes for pool in costs.profile.memory}
        names = [costs.profile.cluster.devices[device].pool for device in space.devices]
        known = [name for name in dict.fromkeys(names) if name in free]
        self.pools = tuple(
            Pool(name, tuple(at for at, other in enumerate(names) if other == name), free[name] - reserved.get(name, 0.0)) for name in known
        )
        self._held = LayerMemory(costs.memory, full_stage((), space.devices))
        self._tables: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    @property
    def never_fits(self) -> bool:
        """Whether nothing at all is free in a pool."""
        return any(pool.free <= 0 for pool in self.pools)

    def kept(self, index: int, pool: Pool) -> np.ndarray:
        """Return the (states,) bytes that a layer keeps on the devices of a pool."""
        kept_bytes: np.ndarray = self._table(index)[0][:, list(pool.places)].sum(axis=1)
        return kept_bytes

    def temporary(self, index: int, place: int) -> np.ndarray:
        """Return the (states,) bytes that a layer's passes need besides on a device.

        Parameters
        ----------
        place : place of the device in the space.
        """
        temporary_bytes: np.ndarray = self._table(index)[1][:, place]
        return temporary_bytes

    def own(self, index: int, pool: Pool) -> np.ndarray:
        """Return the (states,) bytes that a layer keeps on the devices of a pool, however its output is read."""
        memory, own_bytes = self._held.memory, []
        tensors = self._always_kept(index) + ("inner" in memory.needs[index] and memory.trains[index])
        for state in self.space.states[index]:
            entry = self.space.entry(index, "", state)
            held = self._held.held_weights(entry)
            held = held + self._held.score_bytes(entry) if memory.trains[index] else held
            own_bytes.append(self._in(pool, held + tensors * self._held.moved_bytes(index, output_of(entry))))
        return np.array(own_bytes)

    def read(self, index: int, pool: Pool) -> np.ndarray:
        """Return the (states, states of the first reader, ...) bytes of a layer's output, in its own layout and in those that readers need.

        Notes
        -----
        With `own` this is what layers keep in a stage, to the byte: an output that its readers keep in other layouts only is not kept
        in its own, and a copy that several readers keep counts once (`LayerMemory.layer_bytes`).
        """
        memory, readers = self._held.memory, self._held.memory.graph.readers[index]
        rank = len(readers) + 1
        held = [output_of(self.space.entry(index, "", state)) for state in self.space.states[index]]
        graph = memory.graph
        entries = [[self.space.entry(reader, "", state) for state in self.space.states[reader]] for reader in readers]
        wanted = [[wanted_of(graph, entry, index) for entry in theirs] for theirs in entries]
        keeps = [memory.keeps_input[reader] for reader in readers]
        here = not self._always_kept(index) and "view" not in memory.needs[index]
        total = np.zeros((len(held), *map(len, wanted)))
        for tensor_layout in dict.fromkeys(want for wants, kept in zip(wanted, keeps) if kept for want in wants):
            asked = any_reader([np.array([kept and want == tensor_layout for want in wants]) for wants, kept in zip(wanted, keeps)], rank)
            apart = spread(np.array([here or other != tensor_layout for other in held]), (0,), rank)
            total = total + np.where(asked & apart, self._in(pool, self._held.moved_bytes(index, tensor_layout)), 0.0)
        return total

    def _in(self, pool: Pool, held: np.ndarray) -> float:
        return float(held[list(pool.places)].sum())

    def _always_kept(self, index: int) -> bool:
        memory = self._held.memory
        if "view" in memory.needs[index]:
            return False
        return index in memory.graph.outputs or ("output" in memory.needs[index] and bool(memory.trains[index]))

    def needed(self, choice: tuple[int, ...], pool: Pool) -> float:
        """Return the bytes that the states of a choice take in a pool: what layers keep, and the largest temporary of each device.

        Parameters
        ----------
        choice : (layers,) index of each layer's state.
        """
        kept = sum(float(self.kept(index, pool)[at]) for index, at in enumerate(choice))
        largest = [max(float(self.temporary(index, place)[at]) for index, at in enumerate(choice)) for place in pool.places]
        return kept + sum(largest)

    def _table(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        if index not in self._tables:
            entries = [self.space.entry(index, "", state) for state in self.space.states[index]]
            kept, temporary = ([of(entry) for entry in entries] for of in (self._held.layer_bytes, self._held.temporary_bytes))
            self._tables[index] = np.array(kept), np.array(temporary)
        return self._tables[index]
