from __future__ import annotations

import math

import numpy as np
import pytest

from hetero_mtf.planning.allocation.genetic_decode import Sequences, decoded, drawn_sequences
from hetero_mtf.planning.allocation.genetic_population import Evaluation, Genomes
from hetero_mtf.planning.allocation.problem import Allocation, ChainProblem, check_allocation
from tests.cases import each
from tests.planning.allocation.test_genetic_population import drawn
from tests.planning.chains import SMALL, allocations, plain, small
from tools.generated.chains import drawn_chain


def _sum_s(problem: ChainProblem, allocation: Allocation) -> tuple[float, float]:
    """Return the sum of stages and transfers, and the largest."""
    terms = np.concatenate(problem.spent_s(allocation))
    return float(terms.sum()), float(terms.max())


def _within(order: list[int], groups: tuple[int, ...]) -> bool:
    rest = iter(order)
    return all(group in rest for group in groups)


@each("seed", SMALL)
def test_decoded_orders_have_the_least_sum_of_all_their_subsequences_and_cuts(seed: int) -> None:
    problem = small(seed)
    evaluation, genomes, rng = drawn(problem, rows=6)
    sequences = drawn_sequences(evaluation, genomes, rng)
    limit_s = evaluation.fitness(genomes).largest_s * rng.uniform(0.8, 1.5, 6)
    before = [evaluation.allocation(genomes, row) for row in range(6)]
    genomes = decoded(evaluation, genomes, sequences, limit_s)
    every = [a for a in allocations(problem) if not problem.shortfall_bytes(a)]
    for row in range(6):
        after = evaluation.allocation(genomes, row)
        check_allocation(problem, after)
        order = sequences.groups[row, : sequences.counts[row]].tolist()
        sums = [_sum_s(problem, a) for a in every if _within(order, a.groups)]
        least = min((total for total, largest in sums if largest <= limit_s[row]), default=math.inf)
        assert sorted(genomes.order[row]) == list(range(len(problem.groups)))
        if after == before[row] and _sum_s(problem, after)[0] != pytest.approx(least):
            assert least == math.inf or evaluation.bound  # none is to be had, or none for certain within memory
        else:
            assert problem.shortfall_bytes(after) == 0 and _sum_s(problem, after)[1] <= limit_s[row] * (1 + 1e-9)
            assert _sum_s(problem, after)[0] == pytest.approx(least) or evaluation.bound


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_fixed_number_of_stages_keeps_every_group_of_the_order(stages: int) -> None:
    problem = drawn_chain(3, 9, 4, 8)
    evaluation, genomes, rng = drawn(problem, rows=5, stages=stages)
    sequences = drawn_sequences(evaluation, genomes, rng)
    genomes = decoded(evaluation, genomes, sequences, np.full(5, 1e9))
    for row in range(5):
        allocation = evaluation.allocation(genomes, row)
        order = tuple(sequences.groups[row, : sequences.counts[row]].tolist())
        assert allocation.groups == order and len(order) == stages
        least = min(_sum_s(problem, a)[0] for a in allocations(problem) if a.groups == order)
        assert _sum_s(problem, allocation)[0] == pytest.approx(least)


@each("seed", SMALL)
def test_sequences_keep_the_order_and_share_no_device(seed: int) -> None:
    problem = small(seed)
    evaluation, genomes, rng = drawn(problem)
    sequences = drawn_sequences(evaluation, genomes, rng)
    for row in range(40):
        order = sequences.groups[row, : sequences.counts[row]].tolist()
        assert _within(order, evaluation.allocation(genomes, row).groups)
        devices = [device for group in order for device in problem.groups[group]]
        assert len(set(devices)) == len(devices)


def test_a_device_whose_transfer_costs_more_than_it_spares_is_left_out() -> None:
    problem = plain([[1.0] * 4, [1.0] * 4, [100.0] * 4])
    evaluation = Evaluation(problem, None)
    genomes = decoded(
        evaluation, Genomes(np.array([[0, 2, 1]]), np.array([[0, 1, 2]])), Sequences(np.array([[0, 2, 1]]), np.array([3])), np.array([2.0])
    )
    assert evaluation.allocation(genomes, 0) == Allocation((0, 2), (0, 1))


def test_a_limit_that_nothing_keeps_changes_nothing() -> None:
    evaluation = Evaluation(plain([[1.0] * 4] * 2), None)
    genomes = Genomes(np.array([[1, 0]]), np.array([[0, 3]]))
    assert decoded(evaluation, genomes, Sequences(np.array([[1, 0]]), np.array([2])), np.array([1.5])).starts.tolist() == [[0, 3]]
