from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hetero_mtf.planning.memory.worker_memory import (
    GRAPH_BYTES,
    GRAPH_UP_TO_BYTES,
    RUNTIME_BYTES,
    TRANSFER_BYTES,
    is_kernel,
    master,
    scratch_bytes,
    worker_bytes,
)
from hetero_mtf.planning.plan.plan import Plan
from tests.planning.networks import pair_net, profile_of

GRAPH = pair_net()
NOTHING = np.zeros(2)


def test_the_master_is_the_first_device_of_the_largest_share() -> None:
    profile = profile_of(GRAPH, [1e6, 1e6, 1e6])
    shared = [dataclasses.replace(d, share=s) for d, s in zip(profile.cluster.devices, (0.5, 1.0, 1.0))]
    assert master(profile) == 0
    assert master(dataclasses.replace(profile, cluster=dataclasses.replace(profile.cluster, devices=tuple(shared)))) == 1


def test_the_master_holds_the_graph_and_initial_values_twice() -> None:
    profile = profile_of(GRAPH, [1e6, 1e6])
    stage = Plan.filters(GRAPH, [1, 1], profile.cluster, 4).stages[0]
    weights = np.array([100.0, 50.0])
    first, second = worker_bytes(profile, stage, weights, weights, NOTHING)
    assert second == RUNTIME_BYTES + 50
    assert first == RUNTIME_BYTES + 2 * 150 + GRAPH_BYTES * len(stage.layouts) * 2


def test_messages_are_of_a_size_but_a_variable_goes_in_one() -> None:
    profile = profile_of(GRAPH, [1e6, 1e6])
    stage = Plan.filters(GRAPH, [1, 1], profile.cluster, 4).stages[0]
    much, small = np.array([1e9, 1e9]), np.array([1e6, 1e6])
    assert worker_bytes(profile, stage, much, small, NOTHING)[1] == RUNTIME_BYTES + TRANSFER_BYTES
    assert worker_bytes(profile, stage, much, much / 2, NOTHING)[1] == RUNTIME_BYTES + 5e8
    assert worker_bytes(profile, stage, much, small, much)[1] == RUNTIME_BYTES + 1e9


def test_a_graph_larger_than_any_measured_is_not_extrapolated() -> None:
    profile = profile_of(GRAPH, [1e6])
    stage = Plan.single(GRAPH, 0, profile.cluster, 4).stages[0]
    long = dataclasses.replace(stage, layouts=stage.layouts * 10_000)
    assert worker_bytes(profile, long, np.zeros(1), np.zeros(1), np.zeros(1)) == [RUNTIME_BYTES + GRAPH_UP_TO_BYTES]


def test_each_thread_keeps_two_copies_of_a_kernel_unless_they_are_large() -> None:
    assert scratch_bytes(np.array([1e6, 64e6])).tolist() == [8e6, 128e6]


@pytest.mark.parametrize(
    ("shape", "kernel"), [((3, 3, 4, 8), True), ((3, 3, 3, 4, 8), True), ((100, 10), False), ((10,), False), ((), False)]
)
def test_kernels_of_convolutions_are_known_by_their_dimensions(shape: tuple[int, ...], kernel: bool) -> None:
    assert is_kernel(shape) == kernel
