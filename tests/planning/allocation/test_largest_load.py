from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.allocation.allocate import allocate
from hetero_mtf.planning.allocation.dual_bound import dual_bound
from hetero_mtf.planning.allocation.exact import exact_allocation
from hetero_mtf.planning.allocation.fluid_bound import fluid_bound
from hetero_mtf.planning.allocation.genetic import genetic_allocation
from hetero_mtf.planning.allocation.genetic_decode import decoded, drawn_sequences
from hetero_mtf.planning.allocation.genetic_islands import Evolution
from hetero_mtf.planning.allocation.partition import best_partition, equal_partition
from hetero_mtf.planning.allocation.problem import Allocation, ChainProblem
from tests.cases import each
from tests.planning.allocation.test_genetic_population import drawn
from tests.planning.chains import allocations, least, loaded, plain
from tools.generated.chains import drawn_operations

SEEDS = range(24)


def _alike(devices: int, odd: int, seed: int) -> ChainProblem:
    """Return a chain on devices that are exactly alike but for some last ones, whose transfers cost nothing."""
    rng = np.random.default_rng(seed)
    problem = plain([list(rng.uniform(0.1, 1.0, 7))] * devices)
    seconds = problem.seconds * np.where(np.arange(devices) < devices - odd, 1.0, 3.0)[:, None]
    links = np.where(np.eye(devices, dtype=bool), 0.0, 0.1)
    counted = tuple(d < devices - odd for d in range(devices))
    changed = {"seconds": seconds, "seconds_per_byte": links, "sent_bytes": rng.uniform(0.0, 2.0, 6)}
    return dataclasses.replace(problem, objective="largest_load", communication_load=counted, **changed)


def test_the_largest_load_is_that_of_a_stage_with_its_transfers_or_of_the_longest_of_both() -> None:
    links = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    problem = dataclasses.replace(plain([[1.0, 2, 3]] * 3), seconds_per_byte=2 * links, objective="largest_load")
    three = Allocation((0, 1, 2), (0, 1, 2))
    assert problem.value(three) == 4.0 and problem.loads_s(three).tolist() == [1, 2, 3, 4, 4]
    counted = dataclasses.replace(problem, communication_load=(True, True, False))
    assert counted.loads_s(three).tolist() == [5, 10, 3] and counted.value(three) == 10.0
    assert counted.value(Allocation((0,), (1,))) == 6.0


@pytest.mark.slow
@each("seed", SEEDS)
def test_the_exact_answer_has_the_least_largest_load_of_all_allocations(seed: int) -> None:
    problem = loaded(seed)
    best = exact_allocation(problem)
    assert best.value == pytest.approx(least(problem), rel=1e-9) and best.bound == best.value
    if best.answer is None:
        assert math.isinf(best.value)
    else:
        assert problem.value(best.answer) == best.value and problem.shortfall_bytes(best.answer) == 0


@pytest.mark.fast("0", "1", "2", "6", "7")
@pytest.mark.parametrize("seed", range(8))
def test_a_fixed_number_of_stages_is_kept(seed: int) -> None:
    problem = loaded(seed)
    for stages in range(1, problem.most_stages + 1):
        best = exact_allocation(problem, stages)
        assert best.value == pytest.approx(least(problem, stages), rel=1e-9)
        assert best.answer is None or len(best.answer.groups) == stages
        assert fluid_bound(problem, stages) <= best.value * (1 + 1e-9)


@pytest.mark.fast("3-0")
@pytest.mark.parametrize(("devices", "odd"), [(3, 0), (4, 1), (4, 2)])
def test_devices_that_are_alike_need_one_order_only(devices: int, odd: int) -> None:
    for seed in range(5):
        problem = _alike(devices, odd, seed)
        assert exact_allocation(problem).value == pytest.approx(least(problem), rel=1e-9)


@pytest.mark.slow
@each("seed", SEEDS)
def test_the_best_partition_of_an_order_is_that_of_all_its_boundaries(seed: int) -> None:
    problem = loaded(seed)
    fitting = [a for a in allocations(problem) if not problem.shortfall_bytes(a)]
    for groups in list({a.groups for a in fitting})[:4]:
        best = best_partition(problem, groups)
        assert best.value == pytest.approx(min(problem.value(a) for a in fitting if a.groups == groups), rel=1e-9)
        assert best.answer is not None and best.answer.groups == groups
        assert best_partition(problem, groups, known=best.value).answer is None


@each("seed", SEEDS)
def test_an_order_is_decoded_within_the_limit_if_there_is_an_allocation(seed: int) -> None:
    problem = loaded(seed)
    evaluation, genomes, rng = drawn(problem, rows=6)
    sequences = drawn_sequences(evaluation, genomes, rng)
    limit_s = evaluation.fitness(genomes).largest_s * rng.uniform(0.5, 1.2, 6)
    before = [evaluation.allocation(genomes, row) for row in range(6)]
    genomes = decoded(evaluation, genomes, sequences, limit_s)
    for row in range(6):
        after, order = evaluation.allocation(genomes, row), sequences.groups[row, : sequences.counts[row]].tolist()
        if after != before[row]:
            assert problem.value(after) <= limit_s[row] * (1 + 1e-9) and not problem.shortfall_bytes(after)
        elif not evaluation.bound and problem.value(after) > limit_s[row]:
            subsequences = itertools.chain(*(itertools.combinations(order, n) for n in range(1, len(order) + 1)))
            assert all(best_partition(problem, s).value > limit_s[row] * (1 - 1e-9) for s in subsequences if len(s) <= problem.blocks)


@each("seed", SEEDS)
def test_the_fitness_is_the_largest_load(seed: int) -> None:
    problem = loaded(seed)
    evaluation, genomes, _ = drawn(problem, rows=8)
    fitness, broken = evaluation.fitness(genomes), evaluation.broken(genomes)
    for row in range(8):
        value = problem.value(evaluation.allocation(genomes, row))
        assert fitness.largest_s[row] == pytest.approx(value)
        assert broken[row] or fitness.score[row] == pytest.approx(value, rel=1e-7)
        assert value < evaluation.too_much


@pytest.mark.fast("0")
@pytest.mark.parametrize("seed", range(6))
def test_the_genetic_allocator_reaches_the_least_load_of_small_chains(seed: int) -> None:
    problem = loaded(seed)
    best = exact_allocation(problem)
    evolved = genetic_allocation(problem, seed=1, evolution=Evolution(generations=60))
    assert bool(evolved.broken) == math.isinf(best.value)
    assert evolved.broken or best.value * (1 - 1e-9) <= evolved.value <= best.value * 1.01


@pytest.mark.fast("True")
@pytest.mark.parametrize("counted", [False, True])
def test_bounds_are_not_above_the_optimum_and_all_allocators_state_the_load(counted: bool) -> None:
    problem = drawn_operations(5, 40, 4, 8)
    problem = dataclasses.replace(problem, objective="largest_load", communication_load=(True,) * 4 if counted else ())
    best = allocate(problem, "exact")
    assert best.status == "optimal" and best.value == problem.value(best.allocation)
    assert 0 < fluid_bound(problem) <= dual_bound(problem, None, 2 * best.value) <= best.value
    equal = allocate(problem, "equal")
    assert equal.value == problem.value(equal_partition(problem)) and equal.bound == pytest.approx(best.value)
    evolved = allocate(problem, "genetic", seed=0, evolution=Evolution(generations=40))
    assert best.value * (1 - 1e-9) <= evolved.value <= equal.value


def test_a_search_that_is_out_of_time_has_a_bound_below_its_value() -> None:
    problem = dataclasses.replace(drawn_operations(5, 40, 4, 8), objective="largest_load", communication_load=(True,) * 4)
    polled = iter([False] * 6 + [True])
    stopped, best = exact_allocation(problem, out_of_time=lambda: next(polled)), exact_allocation(problem)
    assert stopped.bound <= best.value <= stopped.value and stopped.solved == 6


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"objective": "latency"}, "the objective is 'latency', not one of step, largest_load"),
        ({"communication_load": (True, True)}, "communication counts as load under the objective 'largest_load', not under 'step'"),
        ({"objective": "largest_load", "communication_load": (True,)}, "communication_load must have one entry a group"),
    ],
)
def test_a_malformed_objective_is_refused(change: dict[str, object], fault: str) -> None:
    with pytest.raises(PlanError, match=fault):
        dataclasses.replace(plain([[1.0] * 3] * 2), **change)  # type: ignore[arg-type]
