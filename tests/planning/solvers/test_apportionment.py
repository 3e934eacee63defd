from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.solvers.apportionment import (
    equal_sizes,
    largest_remainder,
    minimise_maximum,
    proportional,
)
from tests.cases import each

shares_with_one_positive = st.lists(st.integers(0, 40), min_size=1, max_size=4).filter(any)


def all_sizes(units: int, devices: int) -> Iterator[tuple[int, ...]]:
    for cuts in itertools.combinations(range(units + devices - 1), devices - 1):
        edges = (-1, *cuts, units + devices - 1)
        yield tuple(b - a - 1 for a, b in zip(edges, edges[1:]))


def staircase(seed: int, units: int) -> list[float]:
    chance = random.Random(seed)
    table = [0.0]
    for _ in range(units):
        table.append(table[-1] + chance.choice([0.0, 0.0, 1.0, 3.0]))
    return table


@pytest.mark.parametrize(
    ("units", "shares", "sizes"),
    [
        (12, [7, 4, 1], (7, 4, 1)),
        (60, [70, 25, 5], (42, 15, 3)),
        (10, [5, 1, 0], (9, 1, 0)),
        (60, [1000, 10, 1], (58, 1, 1)),
        (2, [1, 1, 1], (1, 1, 0)),
        (7, [0, 1, 0], (0, 7, 0)),
        (1, [1, 3], (0, 1)),
    ],
)
def test_typed_shares_become_these_sizes(units: int, shares: list[float], sizes: tuple[int, ...]) -> None:
    assert proportional(units, shares).sizes == sizes


@given(st.integers(1, 12), shares_with_one_positive)
def test_proportional_sizes_are_the_best_that_give_each_positive_share_a_unit(units: int, shares: list[int]) -> None:
    split = proportional(units, shares)
    positive = sum(share > 0 for share in shares)
    legal = [
        sizes
        for sizes in all_sizes(units, len(shares))
        if all((size > 0 or units < positive) if share else size == 0 for size, share in zip(sizes, shares))
    ]
    assert split.sizes in legal
    assert split.value == min(max(size / share for size, share in zip(sizes, shares) if share) for sizes in legal)
    assert (split.gap, split.bound, split.status) == (0.0, split.value, "optimal")


def test_a_unit_for_each_positive_share_may_cost_what_sizes_without_it_would_not() -> None:
    split = proportional(6, [4, 4, 1])
    assert (split.sizes, split.value, split.bound, split.status) == ((3, 2, 1), 1.0, 1.0, "optimal")
    values = {sizes: max(u / s for u, s in zip(sizes, (4, 4, 1))) for sizes in all_sizes(6, 3)}
    assert min(values.values()) == values[3, 3, 0] == 0.75  # not feasible: it leaves the third device out
    assert min(value for sizes, value in values.items() if min(sizes) >= 1) == split.bound


@given(st.integers(1, 500), shares_with_one_positive, st.randoms(use_true_random=False))
def test_permuting_devices_permutes_proportional_sizes_up_to_ties(units: int, shares: list[int], chance: random.Random) -> None:
    order = list(range(len(shares)))
    chance.shuffle(order)
    split, other = proportional(units, shares), proportional(units, [shares[d] for d in order])
    assert split.value == other.value
    if len(set(shares)) == len(shares):
        assert other.sizes == tuple(split.sizes[d] for d in order)


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ([0, 0], r"shares are \[0, 0\], at least one must be above zero; give one device a positive share"),
        ([3, -1], r"shares are \[3, -1\], each must be a finite number of zero or more; correct them"),
        ([1, math.nan], r"shares are \[1, nan\], each must be a finite number"),
        ([1, math.inf], r"shares are \[1, inf\], each must be a finite number"),
        ([], r"shares are \[\], at least one must be above zero"),
    ],
)
def test_impossible_shares_are_refused(shares: list[float], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        proportional(10, shares)


def test_a_dimension_without_units_is_refused() -> None:
    with pytest.raises(PlanError, match="0 units cannot be split; a dimension needs at least one unit"):
        proportional(0, [1])


@given(st.integers(1, 10), st.lists(st.integers(0, 10**6), min_size=1, max_size=4))
def test_the_slowest_device_is_as_fast_as_brute_force_finds_on_staircases(units: int, seeds: list[int]) -> None:
    tables = [staircase(seed, units) for seed in seeds]
    split = minimise_maximum(tables, units)
    best = min(max(t[u] for t, u in zip(tables, sizes)) for sizes in all_sizes(units, len(tables)))
    assert sum(split.sizes) == units and min(split.sizes) >= 0
    assert split.value == best == max(t[u] for t, u in zip(tables, split.sizes))
    assert split.status == "optimal"


@given(st.integers(1, 9), st.lists(st.lists(st.floats(0, 9), min_size=10, max_size=10), min_size=1, max_size=3))
def test_a_cost_of_doing_nothing_counts_and_brute_force_still_agrees(units: int, tables: list[list[float]]) -> None:
    rising = [sorted(table) for table in tables]
    best = min(max(t[u] for t, u in zip(rising, sizes)) for sizes in all_sizes(units, len(rising)))
    assert minimise_maximum(rising, units).value == best


@given(st.integers(1, 300), st.lists(st.integers(0, 10**6), min_size=1, max_size=5))
def test_the_optimum_is_never_worse_than_the_even_split(units: int, seeds: list[int]) -> None:
    tables = [staircase(seed, units) for seed in seeds]
    equal = equal_sizes(units, len(tables)).sizes
    assert minimise_maximum(tables, units).value <= max(t[u] for t, u in zip(tables, equal))


@given(st.integers(1, 60), st.lists(st.integers(0, 10**6), min_size=2, max_size=4, unique=True))
def test_permuting_devices_keeps_the_optimum(units: int, seeds: list[int]) -> None:
    tables = [staircase(seed, units) for seed in seeds]
    assert minimise_maximum(tables, units).value == minimise_maximum(tables[::-1], units).value


def test_a_device_that_is_too_slow_for_one_unit_gets_none() -> None:
    assert minimise_maximum([lambda u: float(u), lambda u: 100.0 * (u > 0)], 50).sizes == (50, 0)


def test_ties_go_to_the_earlier_device() -> None:
    assert minimise_maximum([[0, 1, 1, 1], [0, 1, 1, 1]], 3).sizes == (3, 0)


def test_no_device_is_refused() -> None:
    with pytest.raises(PlanError, match="there is no device to split over; name at least one device"):
        minimise_maximum([], 3)
    with pytest.raises(PlanError, match="there is no device to split over"):
        equal_sizes(3, 0)


def test_a_curve_that_falls_is_refused() -> None:
    with pytest.raises(PlanError, match="the curve of device 1 falls from 3 s to 2 s at 2 units; make it non-decreasing first"):
        minimise_maximum([[0, 1, 2], [0, 3, 2]], 2)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_a_curve_that_is_no_time_is_refused(value: float) -> None:
    with pytest.raises(PlanError, match=r"the curve of device 0 gives .* s at 1 units; seconds must be finite and not negative"):
        minimise_maximum([[0, value, 2]], 2)


def test_a_table_that_is_too_short_is_refused() -> None:
    with pytest.raises(PlanError, match="the curve of device 0 ends at 1 units and 2 are to be split; give 3 values"):
        minimise_maximum([[0, 1]], 2)


@given(st.integers(1, 100), st.integers(1, 7))
def test_equal_sizes_differ_by_at_most_one(units: int, devices: int) -> None:
    sizes = equal_sizes(units, devices).sizes
    assert sum(sizes) == units and max(sizes) - min(sizes) <= 1 and list(sizes) == sorted(sizes, reverse=True)


@example(6, [1, 3, 6])  # sizes (0, 2, 4)
@given(st.integers(6, 200), shares_with_one_positive)
def test_the_largest_remainders_sum_up_give_zero_shares_nothing_and_are_never_better(units: int, shares: list[int]) -> None:
    split = largest_remainder(units, shares)
    assert sum(split.sizes) == units and min(split.sizes) >= 0
    assert all(size == 0 for size, share in zip(split.sizes, shares) if share == 0)
    assert split.gap >= 0 and split.value >= split.bound * (1 - 1e-12) and split.status == "heuristic"
    if all(size > 0 for size, share in zip(split.sizes, shares) if share > 0):  # as `proportional` gives each positive share a unit
        assert split.value >= proportional(units, shares).value * (1 - 1e-12)


def test_the_largest_remainders_get_what_is_left() -> None:
    assert largest_remainder(10, [1, 1, 1]).sizes == (4, 3, 3)
    assert largest_remainder(10, [5, 3, 2]).sizes == (5, 3, 2)


def test_sizes_of_many_units_are_exact_for_curves_given_as_functions() -> None:
    def curves(speeds: Sequence[float]) -> list:
        return [lambda u, s=s: math.ceil(u / 8) / s for s in speeds]

    split = minimise_maximum(curves([1.0, 0.5]), 384)
    assert split.sizes == (256, 128)


@each("seed", range(20))
def test_proportional_sizes_are_those_of_handing_out_one_unit_after_another(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(30):
        shares = [chance.choice([0.0, 1.0, 2.0, 3.0, chance.random(), 1e-9, 1e9]) for _ in range(chance.randint(1, 7))]
        shares[0] = shares[0] or 1.0
        units, positive = chance.randint(1, 60), [d for d, share in enumerate(shares) if share > 0]
        sizes = [int(units >= len(positive) and share > 0) for share in shares]
        while sum(sizes) < units:
            sizes[min(positive, key=lambda d: ((sizes[d] + 1) / shares[d], -shares[d], d))] += 1
        assert proportional(units, shares).sizes == tuple(sizes)


def test_a_billion_units_are_handed_out_as_fast_as_a_few() -> None:
    assert proportional(10**9, [2, 1]).sizes == (666_666_667, 333_333_333) and sum(proportional(10**15, [3.0, 1e-3, 7.0]).sizes) == 10**15
