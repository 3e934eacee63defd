"""Where windows lie, what they are padded with, and how much their voxels count."""

import numpy as np
import pytest

from hetero_mtf.errors import DataError
from hetero_mtf.inference.windowing import LEAST_IMPORTANCE, Windowing


def windowing(dimensions=1, roi_size=4, overlap=0.25, mode="constant", sigma_scale=0.125, padding_mode="constant", cval=0.0):
    return Windowing.of(dimensions, roi_size, overlap, mode, sigma_scale, padding_mode, cval)


def starts(extent, size, overlap):
    return [place.of_volume[0].start for place in windowing(1, size, overlap).places((extent,))]


def test_windows_follow_each_other_by_what_they_do_not_share_and_the_last_one_ends_with_the_volume():
    assert starts(10, 4, 0.25) == [0, 3, 6]
    assert starts(11, 4, 0.25) == [0, 3, 6, 7]
    assert starts(8, 4, 0.0) == [0, 4] and starts(9, 4, 0.0) == [0, 4, 5]
    assert starts(4, 4, 0.5) == [0] and starts(5, 4, 0.99) == [0, 1]
    assert starts(7, 4, 0.99) == [0, 1, 2, 3]  # a step is one voxel at least


def test_the_last_dimension_runs_fastest_and_a_window_may_have_all_of_a_dimension():
    laid = windowing(2, (2, None), 0.0)
    places = laid.places((4, 5))
    assert laid.window((4, 5)) == (2, 5)
    assert [place.of_volume for place in places] == [(slice(0, 2), slice(0, 5)), (slice(2, 4), slice(0, 5))]
    assert [place.of_volume[1].start for place in windowing(2, 2, 0.0).places((4, 4))] == [0, 2, 0, 2]


@pytest.mark.parametrize(
    "mode, row",
    [
        pytest.param("constant", [9, 1, 2, 3, 9, 9], id="constant"),
        pytest.param("reflect", [2, 1, 2, 3, 2, 1], id="reflect"),
        pytest.param("replicate", [1, 1, 2, 3, 3, 3], id="replicate"),
        pytest.param("circular", [3, 1, 2, 3, 1, 2], id="circular"),
    ],
)
def test_a_volume_smaller_than_a_window_lies_in_its_middle(mode, row):
    laid = windowing(1, 6, 0.0, padding_mode=mode, cval=9.0)
    (place,) = laid.places((3,))
    volumes = np.array([1.0, 2.0, 3.0])[np.newaxis, :, np.newaxis]
    assert laid.cut(volumes, 0, place)[:, 0].tolist() == row
    assert row[place.of_window[0]] == [1, 2, 3]


def test_importance_falls_from_the_middle_of_a_window_and_is_never_zero():
    weights = windowing(2, (5, 8), 0.5, "gaussian").importance((5, 8), "float64")
    assert weights.shape == (5, 8, 1) and weights.dtype == np.float64
    np.testing.assert_allclose(weights, weights[::-1, ::-1])
    np.testing.assert_allclose(weights[2, 3, 0], np.exp(-0.25 / 2))  # deviation is 1 voxel of 8
    assert weights.min() == LEAST_IMPORTANCE
    assert (np.diff(weights[2, :4, 0]) > 0).all()
    assert windowing(1, 4, mode="gaussian", sigma_scale=0.4).importance((4,), "float32").min() > 0.3
    assert (windowing(3, 4).importance((2, 3, 4), "float32") == 1).all()


@pytest.mark.parametrize(
    "options, said",
    [
        ({"roi_size": 0}, "roi_size is 0, not whole numbers above 0"),
        ({"roi_size": 2.5}, "roi_size is 2.5"),
        ({"roi_size": (2, 2)}, "roi_size has 2 entries and volumes have 1 spatial dimensions"),
        ({"overlap": 1.0}, "overlap is 1.0, not from 0 to below 1"),
        ({"overlap": "much"}, "overlap is much"),
        ({"overlap": float("nan")}, "overlap is nan"),
        ({"sigma_scale": 0.0}, "sigma_scale is 0.0, not above 0"),
        ({"mode": "mean"}, "mode is 'mean'"),
        ({"padding_mode": "zeros"}, "padding_mode is 'zeros'"),
    ],
)
def test_options_that_are_none_are_refused(options, said):
    with pytest.raises(DataError, match=said):
        windowing(1, **options)
