from __future__ import annotations

import numpy as np
import pytest

from hetero_mtf.planning.chain_instances import drawn_chain, drawn_size


@pytest.mark.parametrize("seed", range(20))
def test_drawn_chains_have_the_shape_of_real_ones(seed: int) -> None:
    blocks, devices, microbatches = drawn_size(seed)
    assert 10 <= blocks <= 60 and 2 <= devices <= 10 and 4 <= microbatches <= 32
    problem = drawn_chain(seed, blocks, devices, microbatches)
    fifth = blocks // 5
    assert problem.kept_bytes[:fifth].mean() > 4 * problem.kept_bytes[-fifth:].mean()
    assert problem.fixed_bytes[-fifth:].mean() > 20 * problem.fixed_bytes[:fifth].mean()
    alone = problem.until[:, -1]
    assert 1.0 <= alone.max() / alone.min() <= 10.0
    assert np.array_equal(problem.latency_s, problem.latency_s.T) and len(np.unique(problem.latency_s)) > devices // 2


def test_the_same_seed_draws_the_same_chain_and_memory_changes_nothing_else() -> None:
    one, same, tight = drawn_chain(1, 20, 4, 8), drawn_chain(1, 20, 4, 8), drawn_chain(1, 20, 4, 8, 0.5)
    assert np.array_equal(one.seconds, same.seconds) and np.array_equal(one.seconds, tight.seconds)
    assert np.isinf(one.memory_bytes).all()
    assert tight.memory_bytes.sum() == pytest.approx(2 * (one.fixed_bytes + one.kept_bytes).sum())
