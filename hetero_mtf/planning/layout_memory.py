"""Memory in the layout program: the bytes that each state of a layer takes on each device, and what is free for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from hetero_mtf.planning.layer_cost import Costs
from hetero_mtf.planning.layout_space import Space, entry_of
from hetero_mtf.planning.memory import StageMemory
from hetero_mtf.planning.records import AXIS, Stage


@dataclasses.dataclass(frozen=True)
class Pool:
    """Memory that devices of a space draw from.

    Parameters
    ----------
    name : its name.
    places : places in the space of the devices that draw from it.
    free : bytes that are free for what layers keep and the largest temporary.
    """

    name: str
    places: tuple[int, ...]
    free: float


class LayoutMemory:
    """Bytes of the states of a space.

    Parameters
    ----------
    costs : Costs of the profile.
    space : Space.
    reserved : pool -> bytes to leave for what does not add up over layers: copies that neighbours bring, messages, the runtime.

    Attributes
    ----------
    pools : the pools that devices of the space draw from and of which it is known how much is free.

    Notes
    -----
    What a layer keeps is taken from its own state, as if its readers had its output where it lies (`StageMemory.layer_bytes`).
    """

    def __init__(self, costs: Costs, space: Space, reserved: Mapping[str, float]) -> None:
        self.space = space
        free = {pool.name: pool.free_bytes for pool in costs.profile.memory}
        names = [costs.profile.cluster.devices[device].pool for device in space.devices]
        known = [name for name in dict.fromkeys(names) if name in free]
        self.pools = tuple(
            Pool(name, tuple(at for at, other in enumerate(names) if other == name), free[name] - reserved.get(name, 0.0)) for name in known
        )
        self._held = StageMemory(costs.memory, Stage((), space.devices, ((AXIS, len(space.devices)),), ()))
        self._tables: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    @property
    def never_fits(self) -> bool:
        """Whether nothing at all is free in a pool."""
        return any(pool.free <= 0 for pool in self.pools)

    def kept(self, index: int, pool: Pool) -> np.ndarray:
        """Return the (states,) bytes that a layer keeps on the devices of a pool.

        Parameters
        ----------
        index : index of the layer.
        pool : Pool.
        """
        found: np.ndarray = self._table(index)[0][:, list(pool.places)].sum(axis=1)
        return found

    def temporary(self, index: int, place: int) -> np.ndarray:
        """Return the (states,) bytes that a layer's passes need besides on a device.

        Parameters
        ----------
        index : index of the layer.
        place : place of the device in the space.
        """
        found: np.ndarray = self._table(index)[1][:, place]
        return found

    def needed(self, choice: tuple[int, ...], pool: Pool) -> float:
        """Return the bytes that the states of a choice take in a pool: what layers keep, and the largest temporary of each device.

        Parameters
        ----------
        choice : (layers,) index of each layer's state.
        pool : Pool.
        """
        kept = sum(float(self.kept(index, pool)[at]) for index, at in enumerate(choice))
        largest = [max(float(self.temporary(index, place)[at]) for index, at in enumerate(choice)) for place in pool.places]
        return kept + sum(largest)

    def _table(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        if index not in self._tables:
            entries = [entry_of(index, "", state) for state in self.space.states[index]]
            kept, temporary = ([of(entry) for entry in entries] for of in (self._held.layer_bytes, self._held.temporary_bytes))
            self._tables[index] = np.array(kept), np.array(temporary)
        return self._tables[index]
