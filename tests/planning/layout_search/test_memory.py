from __future__ import annotations

import numpy as np
import pytest

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.records import AXIS, Stage
from hetero_mtf.planning.layout_search.layout_space import Space, layout_space
from hetero_mtf.planning.layout_search.memory import LayoutMemory
from hetero_mtf.planning.memory.layer_memory import LayerMemory
from tests.cases import first_fast
from tests.planning.layout_objective import drawn_graph, drawn_profile
from tests.planning.networks import attention_net


def held_bytes(costs: Costs, space: Space, choice: tuple[int, ...], temporaries: bool = True) -> np.ndarray:
    """Return the (devices,) bytes that all layers keep, and the largest temporary, on a mesh from which no device is left out."""
    entries = tuple(space.entry(index, "", states[at]) for index, (states, at) in enumerate(zip(space.states, choice)))
    held = LayerMemory(costs.memory, Stage(tuple(range(len(entries))), space.devices, ((AXIS, len(space.devices)),), entries))
    kept: np.ndarray = np.sum([held.layer_bytes(entry) for entry in entries], axis=0)
    largest: np.ndarray = np.max([held.temporary_bytes(entry) for entry in entries], axis=0)
    return kept + largest if temporaries else kept


@pytest.mark.fast("5", "6", "9")
@pytest.mark.parametrize("seed", first_fast(range(33), 10))
def test_what_layers_keep_is_to_the_byte_what_the_stage_keeps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = drawn_graph(rng, int(rng.integers(3, 12))) if seed < 30 else attention_net()
    costs = Costs(drawn_profile(rng, graph))
    space = layout_space(costs, tuple(range(len(costs.profile.cluster.devices))))
    memory = LayoutMemory(costs, space, {})
    for _ in range(10):
        choice = tuple(int(rng.integers(len(states))) for states in space.states)
        for pool in memory.pools:
            found = 0.0
            for index in range(len(choice)):
                readers = costs.graph.readers[index]
                found += memory.own(index, pool)[choice[index]]
                found += memory.read(index, pool)[(choice[index], *(choice[reader] for reader in readers))]
            kept = held_bytes(costs, space, choice, temporaries=False)[list(pool.places)].sum()
            assert found == pytest.approx(kept, rel=1e-12)


def test_what_is_reserved_is_not_free() -> None:
    rng = np.random.default_rng(0)
    costs = Costs(drawn_profile(rng, drawn_graph(rng, 4)))
    space = layout_space(costs, (0, 1))
    (pool,) = LayoutMemory(costs, space, {}).pools
    (less,) = LayoutMemory(costs, space, {pool.name: 1000.0}).pools
    assert less.free == pool.free - 1000 and not LayoutMemory(costs, space, {}).never_fits
    assert LayoutMemory(costs, space, {pool.name: pool.free}).never_fits
