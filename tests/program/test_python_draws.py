"""Python's and NumPy's generators are as before, however the threads that build graphs overlap."""

from __future__ import annotations

import random
import threading
import time

import numpy as np

from hetero_mtf.program.ops.fallback import _python_draws


def test_threads_that_overlap_leave_the_generators_as_they_were() -> None:
    random.seed(3)
    np.random.seed(3)
    before = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index, union-attr]
    drawn: list[float] = []

    def build(key: int) -> None:
        for _ in range(5):
            with _python_draws(key), _python_draws(key):
                time.sleep(0.001 * key)
                drawn.append(random.random() + np.random.random())

    threads = [threading.Thread(target=build, args=(key,)) for key in (1, 1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before and len(set(drawn)) == 2  # type: ignore[index, union-attr]
