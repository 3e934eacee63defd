"""What is lost sums to what is missing to the ideal."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest

from tools.bench.comparison import lost as module
from tools.bench.comparison.lost import PARTS, ideal_s, lost, on_all


def _part(device: str, busy: float, sending: float, step: float) -> dict[str, Any]:
    return {"device": device, "compute_s": busy, "communication_s": sending, "idle_s": step - busy - sending}


def test_the_examples_hold() -> None:
    found = doctest.testmod(module)
    assert found.attempted and not found.failed


@pytest.mark.parametrize("devices", [1, 2, 5])
def test_all_that_is_lost_sums_to_one_less_the_efficiency(devices: int, rng: np.random.Generator) -> None:
    alone, step = rng.uniform(1, 4, devices).tolist(), 2.0
    parts = [_part(f"worker:{d}", rng.uniform(0, 1), rng.uniform(0, 1), step) for d in range(devices)]
    found = lost(parts, alone, step)
    assert sum(found.values()) == pytest.approx(1 - ideal_s(alone) / step)
    assert list(found) == list(PARTS)


def test_a_perfect_split_loses_nothing_and_an_idle_device_all_it_could_do() -> None:
    perfect = [_part(name, 1.0, 0.0, 1.0) for name in ("fast", "slow")]
    assert lost(perfect, [1.5, 3.0], 1.0) == dict.fromkeys(PARTS, 0.0)
    alone = on_all([_part("fast", 1.5, 0.0, 1.5)], ["fast", "slow"], 1.5)
    assert [part["device"] for part in alone] == ["fast", "slow"]
    assert lost(alone, [1.5, 3.0], 1.5) == pytest.approx({"compute_s": 0.0, "communication_s": 0.0, "idle_s": 1 / 3})
