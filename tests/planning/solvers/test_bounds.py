from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.solvers.apportionment import equal_sizes, largest_remainder, minimise_maximum
from tests.cases import first_fast


def every_sizes(units: int, devices: int) -> np.ndarray:
    """Return (choices, devices) all whole sizes that sum to `units`."""
    choices = (units + 1) ** (devices - 1)
    first = np.array(list(itertools.product(range(units + 1), repeat=devices - 1)), int).reshape(choices, devices - 1)
    last = units - first.sum(axis=1)
    return np.column_stack([first, last])[last >= 0]


SIZES = {(units, devices): every_sizes(units, devices) for units in range(1, 9) for devices in range(1, 5)}


def staircases(rng: np.random.Generator, devices: int, units: int) -> np.ndarray:
    """Return (devices, units + 1) seconds that never fall and often stay, some from above zero."""
    return np.cumsum(rng.choice([0.0, 0.0, 1.0, 3.0, 0.5], (devices, units + 1)), axis=1)


def slowest(tables: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    return np.max(tables[np.arange(len(tables)), sizes], axis=1)


@pytest.mark.parametrize("count", first_fast([1000, 10_000], 1))
def test_random_staircases_are_split_as_well_as_brute_force_splits_them(count: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(count):
        devices, units = int(rng.integers(1, 5)), int(rng.integers(1, 9))
        tables = staircases(rng, devices, units)
        split = minimise_maximum(tables.tolist(), units)
        assert sum(split.sizes) == units and min(split.sizes) >= 0
        assert split.value == slowest(tables, np.array([split.sizes]))[0] == slowest(tables, SIZES[units, devices]).min()


@pytest.mark.parametrize("count", first_fast([1000, 10_000], 1))
def test_more_with_bounds_and_multiples_agree_with_brute_force_on_the_value_or_that_there_is_none(count: int) -> None:
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(count):
        devices, units, multiple = int(rng.integers(1, 5)), int(rng.integers(1, 9)), int(rng.integers(1, 4))
        tables, lower = staircases(rng, devices, units), rng.integers(0, 3, devices)
        upper = lower + rng.integers(0, 8, devices)
        legal = allowed(SIZES[units, devices], lower, upper, multiple)
        if len(legal):
            split = minimise_maximum(tables.tolist(), units, lower.tolist(), upper.tolist(), multiple)
            assert split.sizes in {tuple(sizes) for sizes in legal.tolist()}
            assert split.value == slowest(tables, legal).min()
        else:
            refused += 1
            with pytest.raises(PlanError):
                minimise_maximum(tables.tolist(), units, lower.tolist(), upper.tolist(), multiple)
    assert 0.05 * count < refused < 0.95 * count


def allowed(sizes: np.ndarray, lower: np.ndarray, upper: np.ndarray, multiple: int) -> np.ndarray:
    """Return the sizes within bounds of which all but the one with the remainder are multiples."""
    units = int(sizes[0].sum())
    over = np.sort(sizes % multiple, axis=1)
    whole = np.all(over[:, :-1] == 0, axis=1) & (over[:, -1] == units % multiple)
    return sizes[whole & np.all((sizes >= lower) & (sizes <= upper), axis=1)]


@pytest.mark.slow
def test_no_rule_of_shares_is_ever_faster() -> None:
    rng = np.random.default_rng(2)
    for _ in range(2_000):
        devices, units = int(rng.integers(1, 6)), int(rng.integers(6, 200))
        tables = staircases(rng, devices, units)
        best, speeds = minimise_maximum(tables.tolist(), units).value, rng.random(devices) + 0.01
        for rule in (equal_sizes(units, devices), largest_remainder(units, speeds)):
            assert best <= slowest(tables, np.array([rule.sizes]))[0]


def test_an_upper_bound_of_zero_leaves_a_device_out() -> None:
    assert minimise_maximum([lambda u: 0.0, lambda u: u], 7, upper=[0, 7]).sizes == (0, 7)


def test_a_bound_above_all_units_is_no_bound() -> None:
    assert minimise_maximum([lambda u: u, lambda u: 2 * u], 9, upper=[10**9] * 2).sizes == (6, 3)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"upper": [4, 3]}, "the upper bounds hold 7 of 10 units, 3 too few; raise them or add a device"),
        ({"upper": [5, 7], "multiple": 5}, None),
        ({"upper": [4, 9], "multiple": 5}, "the upper bounds hold 5 of 10 units, 5 too few; raise them or add a device"),
        ({"lower": [8, 5]}, "the lower bounds ask for 13 of 10 units, 3 too many; lower them or leave a device out"),
        ({"lower": [3, 0], "upper": [2, 9]}, "the bounds leave nothing for device 0 from 3 to 2 of 10 units; lower the first or raise"),
        ({"lower": [0]}, "there are 1 lower bounds for 2 devices; give one a device"),
        ({"upper": [1, 2, 3]}, "there are 3 upper bounds for 2 devices; give one a device"),
        ({"multiple": 0}, "sizes are to be multiples of 0; use at least 1"),
        ({"lower": [1, 1], "upper": [3, 3], "multiple": 4}, "no sizes within the bounds are the multiples asked for, with 2 units over"),
    ],
)
def test_bounds_that_cannot_be_kept_are_refused_with_what_is_missing(bounds: dict[str, Any], message: str | None) -> None:
    curves: Sequence[Any] = [lambda u: u, lambda u: u]
    if message is None:
        assert minimise_maximum(curves, 10, **bounds).sizes == (5, 5)
        return
    with pytest.raises(PlanError, match=message):
        minimise_maximum(curves, 10, **bounds)
