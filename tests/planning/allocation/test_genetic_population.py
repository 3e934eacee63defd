from __future__ import annotations

import numpy as np
import pytest

from hetero_mtf.planning.allocation.genetic_operators import Mutation, crossover
from hetero_mtf.planning.allocation.genetic_population import Evaluation, Genomes
from hetero_mtf.planning.allocation.problem import ChainProblem, check_allocation
from tests.cases import each
from tests.planning.chains import SMALL, plain, small


def drawn(problem: ChainProblem, rows: int = 40, stages: int | None = None) -> tuple[Evaluation, Genomes, np.random.Generator]:
    """Return allocations drawn at random."""
    rng = np.random.default_rng(0)
    evaluation = Evaluation(problem, stages)
    order = np.argsort(rng.random((rows, len(problem.groups))), axis=1)
    starts = np.sort(rng.integers(0, problem.blocks + 1, (rows, evaluation.width)), axis=1)
    return evaluation, evaluation.valid(Genomes(order, starts)), rng


def check(evaluation: Evaluation, genomes: Genomes) -> None:
    """Assert that all are allocations and that they are worth what the problem says."""
    problem, fitness = evaluation.problem, evaluation.fitness(genomes)
    for row, score in enumerate(fitness.score):
        allocation = evaluation.allocation(genomes, row)
        check_allocation(problem, allocation)
        fits = problem.shortfall_bytes(allocation) == 0 and evaluation.stages in (None, len(allocation.boundaries))
        assert (score < evaluation.too_much) == fits == (evaluation.broken(genomes)[row] == 0)
        assert not fits or score == pytest.approx(problem.value(allocation))
        assert fitness.largest_s[row] == pytest.approx(max(map(np.max, filter(len, problem.spent_s(allocation)))))
        assert sorted(genomes.order[row]) == list(range(len(problem.groups)))


@each("seed", SMALL)
def test_valid_allocations_are_worth_what_the_problem_says(seed: int) -> None:
    evaluation, genomes, _ = drawn(small(seed))
    check(evaluation, genomes)


@pytest.mark.parametrize("seed", SMALL[::4])
@pytest.mark.parametrize("kind", ["shift", "ripple", "exchange", "move", "replace", "merge", "split", "refill", "apply", "crossed"])
def test_every_change_leaves_allocations(seed: int, kind: str) -> None:
    evaluation, genomes, rng = drawn(small(seed))
    change, rows = Mutation(evaluation, 0.0, rng), np.arange(40)
    for _ in range(3):
        if kind == "crossed":
            genomes = crossover(genomes, genomes.rows(rng.permutation(40)), evaluation.blocks, rng)
        elif kind == "refill":
            change.refill(genomes, rows, evaluation.fitness(genomes).largest_s)
        elif kind == "apply":
            change.apply(genomes, rows)
        else:
            genomes = getattr(change, kind)(genomes)
        genomes = evaluation.valid(genomes)
        check(evaluation, genomes)


@each("seed", SMALL)
def test_repair_makes_more_fit_and_breaks_nothing(seed: int) -> None:
    evaluation, genomes, _ = drawn(small(seed))
    before = evaluation.broken(genomes)
    after = evaluation.repaired(genomes)
    check(evaluation, after)
    assert (evaluation.broken(after) > 0).sum() <= (before > 0).sum()


@each("seed", SMALL)
def test_a_fixed_number_of_stages_is_kept_where_groups_share_no_device(seed: int) -> None:
    problem = small(2 * seed)
    for stages in range(1, problem.most_stages + 1):
        evaluation, genomes, rng = drawn(problem, stages=stages)
        Mutation(evaluation, 0.0, rng).apply(genomes, np.arange(40))
        genomes = evaluation.valid(genomes)
        assert ((genomes.starts < problem.blocks).sum(axis=1) == stages).all()


@pytest.mark.parametrize("backward", [False, True])
def test_stages_are_filled_up_to_the_limit(backward: bool) -> None:
    evaluation = Evaluation(plain([[1.0] * 9, [1.5] * 9, [3.0] * 9]), None)
    genomes = Genomes(np.array([[0, 1, 2]]), np.array([[0, 1, 2]]))
    filled = evaluation.filled(genomes, np.array([4.5]), backward)
    assert filled.starts.tolist() == [[0, 5, 8] if backward else [0, 4, 7]]


def test_a_repair_hands_blocks_on_and_back() -> None:
    problem = plain([[1.0] * 6] * 2, microbatches=1, memory=6.0)
    evaluation = Evaluation(problem, None)
    for cut in (1, 2, 4, 5):
        repaired = evaluation.repaired(Genomes(np.array([[0, 1]]), np.array([[0, cut]])))
        assert repaired.starts.tolist() == [[0, 3]]
