from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hetero_mtf.planning.memory.stage_memory import UPDATE_TENSORS, stage_bytes, stage_memory_bytes
from hetero_mtf.planning.memory.worker_memory import RUNTIME_BYTES
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec
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


@pytest.mark.parametrize("strategy", ["single", "filters", "batch"])
def test_updates_of_full_variables_take_memory_at_the_end_of_a_step(strategy: str) -> None:
    wide = Net((1000,))
    wide.dense("head", 1000)
    graph = wide.graph()
    elementwise, lamb = (dataclasses.replace(profile_of(graph, [1e6, 1e6]), optimizer=OptimizerSpec(name)) for name in ("adam", "lamb"))
    weights = 4 * 1001 * 1000
    wanted = {"single": 0, "filters": [1, 1], "batch": [1, 1]}
    plan = getattr(Plan, strategy)(graph, wanted[strategy], elementwise.cluster, 4)
    more = np.subtract(*(stage_memory_bytes(profile, plan.stages[0]) for profile in (lamb, elementwise)))
    # gradients that wait; what is gathered; half of two slots, which adam has on the other device, and their initial values as messages
    at_once = {"single": 1.0, "filters": 1 / 2 + 2 + 1 + 1, "batch": 0.0}[strategy]
    passes = {"single": 2.0, "filters": 2 / 2, "batch": 0.0}[strategy]  # the gradients of the passes' own peak
    assert more[-1] == pytest.approx((UPDATE_TENSORS + at_once - passes) * weights, rel=0.02)


def test_a_stage_of_a_pipeline_needs_the_temporaries_of_updates_where_they_are_more_than_those_of_passes() -> None:
    wide = Net((1000,))
    wide.dense("head", 1000)
    profile = profile_of(wide.graph(), [1e6])
    stage = Plan.single(profile.graph, 0, profile.cluster, 4).stages[0]
    adam, lamb = (stage_bytes(dataclasses.replace(profile, optimizer=OptimizerSpec(name)), stage) for name in ("adam", "lamb"))
    assert not adam.update.any() and lamb.update == UPDATE_TENSORS * 4 * 1001 * 1000
    held = dataclasses.replace(lamb, update=lamb.kept + lamb.temporary + 7)
    assert held.peak(1)[0] - lamb.peak(1)[0] == 7 and held.peak(4000) == lamb.peak(4000) > lamb.peak(1)
