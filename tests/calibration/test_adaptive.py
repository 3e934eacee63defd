"""Where to measure next: nearer to staircases than as many points at equal distances, and an end where nothing is to be gained."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.calibration.adaptive import LEAST_ERROR, PRIOR, Sampled, expected_errors, next_sample, next_units
from hetero_mtf.planning.profile.curve import Curve, interpolated

TOTAL = 64
_Seconds = Callable[[int], float]


def _staircase(seed: int) -> _Seconds:
    """Return a curve with one to three steps and a slope, as kernels have that change their method at some size."""
    rng = np.random.default_rng(seed)
    steps, heights = rng.integers(TOTAL // 4, TOTAL, rng.integers(1, 4)), rng.uniform(0.2, 1.0, 3)
    return lambda units: 0.01 * units + sum(height for step, height in zip(steps, heights) if units > step)


def _sampled(curve: _Seconds, units: list[int], weight: float = 1.0) -> Sampled:
    return Sampled(tuple(units), tuple(curve(u) for u in units), (0.0,) * len(units), weight)


def _grown(curve: _Seconds, most: int) -> list[int]:
    units = [TOTAL // 4, TOTAL // 2, TOTAL]
    while len(units) < most:
        found = next_units(_sampled(curve, units))
        if found is None:
            break
        assert found[0] not in units and units[0] < found[0] < TOTAL
        units = sorted([*units, found[0]])
    return units


def _error(curve: _Seconds, units: list[int]) -> float:
    seconds = tuple(curve(u) for u in units)
    fitted = interpolated(Curve(1, 0, "output", "forward", 8, tuple(units), seconds, (0.0,) * len(units)), range(units[0], TOTAL + 1))
    return float(np.mean([abs(found - curve(u)) for u, found in enumerate(fitted, units[0])]))


@pytest.mark.fast("6")
@pytest.mark.parametrize("points", [6, 8, 10])
def test_staircases_are_met_better_than_by_as_many_points_at_equal_distances(points: int) -> None:
    adaptive, equal = [], []
    for seed in range(300):
        curve = _staircase(seed)
        units = _grown(curve, points)
        adaptive.append(_error(curve, units))
        equal.append(_error(curve, [round(u) for u in np.linspace(TOTAL // 4, TOTAL, len(units))]))
    assert np.mean(adaptive) < 0.9 * np.mean(equal) and np.median(adaptive) < np.median(equal)


@given(st.integers(0, 10**6))
def test_measuring_on_ends_and_leaves_no_step_wider_than_it_must(seed: int) -> None:
    curve = _staircase(seed)
    units = _grown(curve, TOTAL)
    assert len(units) < TOTAL and next_units(_sampled(curve, units)) is None
    for low, high in zip(units, units[1:]):
        rise = curve(high) - curve(low)
        assert high - low == 1 or rise <= LEAST_ERROR / PRIOR * curve(high)


@given(st.lists(st.floats(0.0, 10.0), min_size=3, max_size=8), st.data())
def test_no_error_is_expected_beyond_half_a_rise(seconds: list[float], data: st.DataObject) -> None:
    units = sorted(data.draw(st.sets(st.integers(1, 100), min_size=len(seconds), max_size=len(seconds))))
    found = expected_errors(Sampled(tuple(units), tuple(seconds), (0.0,) * len(units)))
    assert len(found) == len(units) - 1
    for (middle, error), low, high, before, after in zip(found, units, units[1:], seconds, seconds[1:]):
        assert low <= middle < high and 0 <= error <= abs(after - before) / 2


def test_a_straight_curve_is_looked_at_once_in_every_interval() -> None:
    assert _grown(float, 4) == [16, 32, 48, 64] and _grown(float, TOTAL) == [16, 24, 32, 48, 64]


def test_a_bend_that_noise_explains_is_not_looked_into() -> None:
    assert next_units(Sampled((16, 32, 64), (1.0, 1.1, 1.8), (0.0, 0.0, 0.0))) == (48, pytest.approx(0.125))
    assert next_units(Sampled((16, 32, 64), (1.0, 1.1, 1.8), (0.1, 0.1, 0.1))) is None
    assert next_units(Sampled((16, 32, 64), (1.0, 1.0 + LEAST_ERROR, 1.04), (0.0, 0.0, 0.0))) is None


def test_the_curve_with_most_seconds_at_stake_is_next() -> None:
    bent = (0.1, 0.1, 0.3)
    small, large = Sampled((1, 2, 4), bent, (0.0,) * 3), Sampled((10, 20, 40), bent, (0.0,) * 3, weight=3.0)
    assert next_sample({"small": small, "large": large}) == ("large", 30)
    assert next_sample({"small": small}) == ("small", 3)
    assert next_sample({"one": Sampled((4,), (1.0,), (0.0,)), "two": Sampled((3, 4), (0.0, 1.0), (0.0, 0.0))}) is None
    assert next_sample({}) is None


def test_a_curve_of_one_point_is_looked_at_where_its_proportional_line_may_be_wrong() -> None:
    light = Sampled((64,), (0.8,), (0.0,), weight=2.0, lower=8)
    assert next_units(light) == (8, pytest.approx(0.2)) and next_units(Sampled((64,), (0.8,), (0.0,))) is None
    assert next_sample({"light": light, "heavy": Sampled((16, 64), (1.0, 9.0), (0.0, 0.0))}) == ("heavy", 40)
    assert next_sample({"light": light, "heavy": Sampled((16, 64), (1.0, 2.0), (0.0, 0.0))}) == ("light", 8)
