from __future__ import annotations

import numpy as np

from hetero_mtf.planning.solvers.sliding_window import time_reach, window_minimum
from tests.cases import each


@each("seed", range(20))
def test_the_least_of_each_run_is_what_looking_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    places = int(rng.integers(1, 40))
    values, ends = rng.random((3, places)), rng.integers(0, places, places)
    wanted = [[min(row[i + 1 : end + 1], default=np.inf) for i, end in enumerate(ends)] for row in values.tolist()]
    assert window_minimum(values, ends).tolist() == wanted


def test_a_limit_that_is_a_stage_reaches_its_end_whatever_is_rounded() -> None:
    until = np.concatenate([[0.0], np.cumsum(np.random.default_rng(0).random(200))])[None, :]
    for first in range(0, 200, 7):
        for end in range(first + 1, 201, 5):
            assert time_reach(until, until[0, end] - until[0, first])[0, first] == end
    assert (time_reach(until, np.inf) == 200).all()
