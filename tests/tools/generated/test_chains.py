from __future__ import annotations

import numpy as np
import pytest

from tests.cases import each
from tools.generated.chains import drawn_chain, drawn_operations, drawn_operations_size, drawn_size


@each("seed", range(20))
def test_drawn_chains_have_the_shape_of_real_ones(seed: int) -> None:
    blocks, devices, microbatches = drawn_size(seed)
    assert 10 <= blocks <= 60 and 2 <= devices <= 10 and 4 <= microbatches <= 32
    problem = drawn_chain(seed, blocks, devices, microbatches)
    fifth = blocks // 5
    assert problem.kept_bytes[:fifth].mean() > 4 * problem.kept_bytes[-fifth:].mean()
    assert problem.fixed_bytes[-fifth:].mean() > 20 * problem.fixed_bytes[:fifth].mean()
    alone = problem.prefix_s[:, -1]
    assert 1.0 <= alone.max() / alone.min() <= 10.0
    assert np.array_equal(problem.latency_s, problem.latency_s.T) and len(np.unique(problem.latency_s)) > devices // 2


def test_the_same_seed_draws_the_same_chain_and_memory_changes_nothing_else() -> None:
    one, same, tight = drawn_chain(1, 20, 4, 8), drawn_chain(1, 20, 4, 8), drawn_chain(1, 20, 4, 8, 0.5)
    assert np.array_equal(one.seconds, same.seconds) and np.array_equal(one.seconds, tight.seconds)
    assert np.isinf(one.memory_bytes).all()
    assert tight.memory_bytes.sum() == pytest.approx(2 * (one.fixed_bytes + one.kept_bytes).sum())


@each("seed", range(20))
def test_drawn_operations_have_transfers_as_long_as_stages_that_vary_by_orders_of_magnitude(seed: int) -> None:
    blocks, devices, microbatches = drawn_operations_size(seed)
    assert 60 <= blocks <= 430 and 3 <= devices <= 8 and 4 <= microbatches <= 32
    problem = drawn_operations(seed, blocks, devices, microbatches)
    assert problem.sent_bytes.max() > 30 * problem.sent_bytes.min()
    alone = problem.prefix_s[:, -1]
    assert 1.0 <= alone.max() / alone.min() <= 35.0
    stage_s = 1.0 / (1.0 / alone).sum()
    median_s = np.median(problem.transfer_s(0, 1, np.arange(1, blocks)))
    assert 0.02 * stage_s < median_s < 30 * stage_s


def test_drawn_operations_are_the_same_for_a_seed_and_memory_changes_nothing_else() -> None:
    one, same, tight = drawn_operations(1, 90, 4, 8), drawn_operations(1, 90, 4, 8), drawn_operations(1, 90, 4, 8, 0.5)
    assert np.array_equal(one.seconds, same.seconds) and np.array_equal(one.seconds_per_byte, tight.seconds_per_byte)
    assert tight.memory_bytes.sum() == pytest.approx(2 * (one.fixed_bytes + one.kept_bytes).sum())
