from __future__ import annotations

import numpy as np

from hetero_mtf.planning.memory.stage_memory import stage_memory_bytes
from hetero_mtf.planning.memory.worker_memory import RUNTIME_BYTES
from hetero_mtf.planning.plan.plan import Plan
from tests.planning.memory.test_layer_memory import GRAPH, kept, temporaries
from tests.planning.networks import Net, profile_of


def test_a_stage_holds_what_layers_keep_the_largest_temporary_and_what_the_process_takes() -> None:
    profile = profile_of(GRAPH, [1e6, 1e6])
    plan = Plan.filters(GRAPH, [3, 1], profile.cluster, 4)
    tensors = kept(profile, plan) + temporaries(profile, plan).max(axis=0)
    beside = np.array(stage_memory_bytes(profile, plan.stages[0])) - tensors
    assert RUNTIME_BYTES < beside[1] < beside[0] < 2 * RUNTIME_BYTES


def test_gradients_that_wait_for_those_of_others_count_twice_where_weights_are_most_of_it() -> None:
    wide = Net((1000,))
    wide.dense("head", 1000)
    graph = wide.graph()
    profile = profile_of(graph, [1e6, 1e6])
    weights = 4 * 1001 * 1000
    found = stage_memory_bytes(profile, Plan.batch(graph, [1, 1], profile.cluster, 4).stages[0])
    assert found[1] == 4 * weights + RUNTIME_BYTES + 2 * weights  # and as messages initial weights and slots, which are more than gradients
