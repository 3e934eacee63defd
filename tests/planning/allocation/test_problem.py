from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.allocation.problem import Allocation, ChainProblem, check_allocation, check_stages
from tests.cases import each
from tests.planning.chains import SMALL, allocations, plain, small


def test_the_objective_is_the_sum_of_stages_and_transfers_and_the_largest_for_every_other_microbatch() -> None:
    links = np.array([[0.0, 1.0], [1.0, 0.0]])
    problem = dataclasses.replace(plain([[1.0, 2, 3], [2, 4, 6]], microbatches=3), latency_s=links, seconds_per_byte=2 * links)
    assert problem.value(Allocation((0, 2), (0, 1))) == 3 + 6 + 2 * (1 + 2) + 2 * 6
    assert problem.value(Allocation((0, 1), (0, 1))) == 1 + 10 + 6 + 2 * 10
    slow = dataclasses.replace(problem, seconds_per_byte=20 * links)
    assert slow.value(Allocation((0, 2), (0, 1))) == 9 + 42 + 2 * 42


def test_between_groups_the_worst_link_counts() -> None:
    latency = np.array([[0.0, 1, 2], [1, 0, 5], [2, 5, 0]])
    problem = dataclasses.replace(plain([[1.0, 1]] * 3), latency_s=latency, groups=((0, 1), (2,), (1,)))
    assert problem.links[0].tolist() == [[1, 5, 1], [5, 0, 5], [1, 5, 0]]


def test_a_stage_holds_a_microbatch_for_itself_and_each_stage_behind_it_but_no_more_than_there_are() -> None:
    problem = plain([[1.0] * 4] * 4, microbatches=3)
    assert [problem.in_flight(count) for count in (1, 2, 3, 4)] == [1, 2, 3, 3]
    assert [dataclasses.replace(problem, schedule="fill_drain").in_flight(count) for count in (1, 4)] == [3, 3]
    assert problem.needed_bytes(0, 0, 2, 3).tolist() == [2 + 3 * 2]


def test_devices_of_a_group_hold_kept_bytes_by_share_and_fixed_bytes_by_share_or_whole() -> None:
    problem = dataclasses.replace(plain([[1.0, 1]], memory=9.0), groups=((0, 1),), shares=((3.0, 1.0),), **_two())
    assert problem.needed_bytes(0, 0, 2, 1).tolist() == [3.0, 1.0]
    assert dataclasses.replace(problem, replicated_weights=(True,)).needed_bytes(0, 0, 2, 1).tolist() == [3.5, 2.5]
    idle = dataclasses.replace(problem, replicated_weights=(True,), shares=((1.0, 0.0),))
    assert idle.needed_bytes(0, 0, 2, 1).tolist() == [4.0, 0.0]


def _two() -> dict[str, np.ndarray]:
    return {"latency_s": np.zeros((2, 2)), "seconds_per_byte": np.zeros((2, 2)), "memory_bytes": np.full(2, 9.0)}


@each("seed", SMALL)
def test_stages_within_reach_are_those_that_fit(seed: int) -> None:
    problem = small(seed)
    for allocation in allocations(problem):
        runs = allocation.runs(problem.blocks)
        reached = all(end <= problem.reach(len(runs) - at)[group, first] for at, (group, first, end) in enumerate(runs))
        assert reached == (problem.shortfall_bytes(allocation) == 0)


def test_the_shortfall_is_that_of_the_device_that_lacks_most() -> None:
    assert plain([[1.0] * 4] * 2, memory=5.0).shortfall_bytes(Allocation((0, 2), (0, 1))) == 1.0
    assert plain([[1.0] * 4] * 2, memory=6.0).shortfall_bytes(Allocation((0, 2), (0, 1))) == 0.0


@pytest.mark.parametrize(
    ("boundaries", "groups", "fault"),
    [
        ((0, 2), (0,), "begin the first at 0"),
        ((1,), (0,), "begin the first at 0"),
        ((0, 0), (0, 1), "rising"),
        ((0, 3), (0, 1), "below 3"),
        ((), (), "begin the first"),
        ((0, 1), (0, 2), "from 0 to 1"),
        ((0, 1), (1, 1), "share devices"),
    ],
)
def test_what_is_no_allocation_is_refused(boundaries: tuple[int, ...], groups: tuple[int, ...], fault: str) -> None:
    with pytest.raises(PlanError, match=fault):
        check_allocation(plain([[1.0] * 3] * 2), Allocation(boundaries, groups))


def test_more_stages_than_blocks_groups_or_devices_are_refused_with_what_is_possible() -> None:
    with pytest.raises(PlanError, match=r"4 stages cannot be made of 3 blocks and 5 groups of 5 devices; ask for 1 to 3"):
        check_stages(plain([[1.0] * 3] * 5), 4)
    with pytest.raises(PlanError, match="ask for 1 to 2"):
        check_stages(plain([[1.0] * 3] * 2), 0)
    shared = dataclasses.replace(plain([[1.0] * 3] * 3), groups=((0, 1), (1, 2), (0, 2)))
    with pytest.raises(PlanError, match="ask for 1 to 1"):
        check_stages(shared, 2, most=1)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"groups": ((0,), ())}, "group 1 has no device, and a stage needs at least one"),
        ({"groups": ((0,), (2,))}, "group 1 has devices .2., which must be different ones from 0 to 1"),
        ({"groups": ((0,), (1, 1))}, "must be different"),
        ({"groups": ((0,),)}, "seconds has shape"),
        ({"sent_bytes": np.ones(3)}, r"sent_bytes has shape \(3,\), not \(2,\)"),
        ({"kept_bytes": np.array([1.0, -1, 1])}, "kept_bytes has numbers that are negative"),
        ({"latency_s": np.full((2, 2), np.nan)}, "latency_s has numbers"),
        ({"memory_bytes": np.array([np.nan, 1])}, "memory_bytes has numbers"),
        ({"microbatches": 0}, "0 microbatches"),
        ({"schedule": "none"}, "schedule is 'none'"),
        ({"shares": ((1.0,),)}, "one number a device"),
        ({"shares": ((1.0,), (0.0,))}, "above zero"),
        ({"replicated_weights": (True,)}, "one entry a group"),
        ({"seconds": np.zeros((2, 0))}, "at least one of each"),
    ],
)
def test_a_malformed_problem_is_refused(change: dict[str, object], fault: str) -> None:
    with pytest.raises(PlanError, match=fault):
        dataclasses.replace(plain([[1.0] * 3] * 2), **change)  # type: ignore[arg-type]


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(PlanError, match="microbatches.*schedule"):
        dataclasses.replace(plain([[1.0]]), microbatches=0, schedule="x")


def test_infinite_memory_is_allowed() -> None:
    assert isinstance(plain([[1.0]], memory=math.inf), ChainProblem)
