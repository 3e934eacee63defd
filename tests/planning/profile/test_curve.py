from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.planning.profile.curve import Curve, curve_faults, interpolated


def curve(units: tuple[int, ...], seconds: tuple[float, ...]) -> Curve:
    return Curve(1, 0, "output", "forward", 8, units, seconds, (0.0,) * len(units))


@st.composite
def curves(draw: st.DrawFn) -> Curve:
    units = draw(st.lists(st.integers(0, 300), min_size=1, max_size=6, unique=True))
    seconds = draw(st.lists(st.floats(0, 10), min_size=len(units), max_size=len(units)))
    return curve(tuple(sorted(units)), tuple(seconds))


def test_measured_points_are_met_and_lines_drawn_between_them() -> None:
    assert interpolated(curve((10, 20, 40), (1.0, 3.0, 4.0)), [10, 15, 20, 30, 40]) == [1.0, 2.0, 3.0, 3.5, 4.0]


def test_no_units_take_no_time_even_where_the_curve_starts_high() -> None:
    assert interpolated(curve((1, 2), (5.0, 5.0)), [0, 1]) == [0.0, 5.0]
    assert interpolated(curve((0, 2), (5.0, 6.0)), [0, 2]) == [0.0, 6.0]


def test_below_the_first_point_the_first_piece_is_continued_as_a_fixed_cost() -> None:
    assert interpolated(curve((10, 20), (5.0, 6.0)), [5, 1]) == [4.5, pytest.approx(4.1)]


def test_below_the_first_point_a_steep_piece_is_held_above_the_line_to_zero() -> None:
    assert interpolated(curve((10, 20), (1.0, 9.0)), [5]) == [0.5]


def test_beyond_the_last_point_the_last_piece_is_continued() -> None:
    assert interpolated(curve((10, 20), (1.0, 3.0)), [30]) == [5.0]


def test_a_curve_of_one_point_is_proportional() -> None:
    assert interpolated(curve((10,), (2.0,)), [5, 10, 20]) == [1.0, 2.0, 4.0]


def test_noise_that_makes_a_curve_fall_is_pooled() -> None:
    assert interpolated(curve((1, 2, 3), (1.0, 3.0, 2.0)), [2, 3]) == [2.5, 2.5]


@given(curves())
def test_every_curve_never_falls_and_is_never_negative(measured: Curve) -> None:
    seconds = interpolated(measured, range(400))
    assert seconds[0] == 0.0
    assert all(a <= b + 1e-9 for a, b in zip(seconds, seconds[1:]))


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"layer": 9}, "curves[0].layer: is 9, there are 5 layers"),
        ({"device": -1}, "curves[0].device: is -1, there are 2 devices"),
        ({"dimension": "depth"}, "curves[0].dimension: is 'depth', must be one of output, input, whole, batch, space, alone"),
        ({"dimension": "batch", "units": (4, 9)}, "curves[0].units: are [4, 9] samples, the batch has 8"),
        ({"step_pass": "sideways"}, "curves[0].step_pass: is 'sideways', must be one of forward, backward, update"),
        ({"batch": 0}, "curves[0].batch: is 0, must be at least 1"),
        ({"units": (2, 1)}, "curves[0].units: are [2, 1], must be zero or more and increase"),
        ({"units": (), "seconds": (), "spread": ()}, "curves[0].units: are [], must be zero or more and increase"),
        ({"seconds": (1.0,)}, "curves[0].seconds: are 1, there are 2 units"),
        ({"seconds": (1.0, math.nan)}, "curves[0].seconds: hold nan, must be finite and zero or more"),
        ({"seconds": (-1.0, 1.0)}, "curves[0].seconds: hold -1, must be finite and zero or more"),
        ({"spread": (0.0, math.inf)}, "curves[0].spread: hold inf, must be finite and zero or more"),
    ],
)
def test_faults_of_a_curve_are_named(changes: dict, fault: str) -> None:
    values = {"layer": 1, "device": 0, "dimension": "output", "step_pass": "forward", "batch": 8}
    values |= {"units": (1, 2), "seconds": (1.0, 2.0), "spread": (0.0, 0.0)}
    assert [str(f) for f in curve_faults(Curve(**{**values, **changes}), "curves[0]", 5, 2)] == [fault]
