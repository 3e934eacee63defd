from __future__ import annotations

import itertools

import numpy as np

from hetero_mtf.planning.solvers.elimination import Factor, elimination_order, minimise_sum
from tests.cases import each


def drawn(rng: np.random.Generator, variables: int) -> tuple[list[int], list[Factor]]:
    """Return random variables and factors, some choices not allowed, numbers whole so that sums are exact."""
    domains = rng.integers(1, 4, variables).tolist()
    factors = []
    for _ in range(int(rng.integers(0, 2 * variables))):
        scope = tuple(rng.permutation(variables)[: rng.integers(0, 4)].tolist())
        table = rng.integers(0, 50, [domains[v] for v in scope]).astype(float)
        factors.append(Factor(scope, np.where(rng.random(table.shape) < 0.1, np.inf, table) if scope else table))
    return domains, factors


def total(factors: list[Factor], choice: tuple[int, ...]) -> float:
    return sum(float(factor.table[tuple(choice[v] for v in factor.scope)]) for factor in factors)


@each("seed", range(150))
def test_the_least_sum_is_what_enumeration_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    domains, factors = drawn(rng, int(rng.integers(1, 7)))
    found = minimise_sum(domains, factors)
    assert found.value == min(total(factors, choice) for choice in itertools.product(*map(range, domains)))
    assert total(factors, found.choice) == found.value or found.value == np.inf


def test_a_long_chain_has_width_one_and_costs_the_sum_of_its_cheapest_steps() -> None:
    step = Factor((0, 1), np.array([[1.0, 9.0], [9.0, 2.0]]))
    factors = [Factor((at, at + 1), step.table) for at in range(2000)]
    assert elimination_order([2] * 2001, [factor.scope for factor in factors])[1] == 4
    assert minimise_sum([2] * 2001, factors).value == 2000.0


def test_a_square_needs_tables_over_three_of_its_variables() -> None:
    assert elimination_order([5] * 4, [(0, 1), (1, 2), (2, 3), (3, 0)])[1] == 125


def test_a_variable_in_no_factor_takes_its_first_value() -> None:
    assert minimise_sum([3], []).choice == (0,)
