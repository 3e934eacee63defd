from __future__ import annotations

import numpy as np
import pytest

from hetero_mtf.data.volumes.images.intensity import head, normalised, otsu_threshold, without_nan
from hetero_mtf.errors import DataError

NAN = float("nan")


def volume(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(50, 10, (6, 7, 8)).astype(np.float32)


def test_some_nan_and_infinity_become_zero_and_are_noted() -> None:
    values = volume()
    values[0, 0, :2] = NAN, np.inf
    made, notes = without_nan(values.copy(), 0.05, "x")
    assert (made[0, 0, :2] == 0).all() and np.array_equal(made[1:], values[1:])
    assert notes == ("set 2 NaN or infinite voxels to 0 (0.60%)",)
    assert without_nan(volume(), 0.0, "x")[1] == ()


@pytest.mark.parametrize(
    ("spoilt", "share", "message"),
    [
        (1, 0.0, "x has NaN or infinite values in 1 of 336 voxels (0.3%, allowed are 0.0%); convert it again, or allow more"),
        (40, 0.05, "x has NaN or infinite values in 40 of 336 voxels (11.9%, allowed are 5.0%)"),
        (336, 0.9, "x has NaN or infinite values in 336 of 336 voxels"),
    ],
)
def test_more_than_the_share_and_nothing_but_nan_are_refused(spoilt: int, share: float, message: str) -> None:
    values = volume()
    values.flat[:spoilt] = NAN
    with pytest.raises(DataError) as caught:
        without_nan(values, share, "x")
    assert message in str(caught.value)


@pytest.mark.parametrize("spoilt", [0, 10])
def test_a_constant_volume_is_refused_even_beside_nan(spoilt: int) -> None:
    values = np.zeros((6, 7, 8), np.float32)
    values.flat[:spoilt] = NAN
    with pytest.raises(DataError, match="x has the value 0 everywhere, there is no picture in it; convert it again"):
        without_nan(values, 0.5, "x")


def test_otsu_is_the_best_of_all_borders() -> None:
    values = np.concatenate([np.random.default_rng(1).normal(m, 1, n) for m, n in ((0, 3000), (10, 1000), (12, 500))])
    counts, edges = np.histogram(values, 256)

    def between(border: float) -> float:
        low, high = values[values < border], values[values >= border]
        return low.size * high.size * (low.mean() - high.mean()) ** 2

    found = otsu_threshold(values)
    best = max(map(between, edges[1:-1]))
    assert between(found) >= 0.999 * best and 3 < found < 8


def test_the_head_is_the_largest_bright_part_with_its_holes() -> None:
    values = np.random.default_rng(2).normal(0, 0.1, (12, 12, 12)).astype(np.float32)
    values[2:9, 2:9, 2:9] += 10
    values[4:6, 4:6, 4:6] -= 10  # a ventricle
    values[11, 11, 11] += 10  # a speck
    expected = np.zeros(values.shape, bool)
    expected[2:9, 2:9, 2:9] = True
    assert np.array_equal(head(values), expected)


@pytest.mark.parametrize(
    ("normalisation", "low", "high"), [("zscore", None, None), ("minmax", 0, 1), ("percentile", 0, 1), ("none", 0, None)]
)
def test_each_normalisation_is_what_it_says_and_padding_has_the_lowest_value(normalisation, low, high) -> None:
    values = np.pad(volume(), 2, constant_values=NAN)
    inside = np.isfinite(values)
    made = normalised(values, inside, False, normalisation, "x")
    assert made.dtype == np.float32 and np.allclose(made[~inside], made[inside].min())
    counted, raw = made[inside].astype(np.float64), volume().ravel()
    if normalisation == "zscore":
        assert abs(counted.mean()) < 1e-6 and abs(counted.std() - 1) < 1e-6
    elif normalisation == "none":
        np.testing.assert_array_equal(counted, raw)
    else:
        assert counted.min() == low and counted.max() == high
    if normalisation == "percentile":
        first, last = np.percentile(raw.astype(np.float64), (1, 99))
        np.testing.assert_allclose(counted, np.clip((raw - first) / (last - first), 0, 1), atol=1e-6)


def test_with_a_mask_only_its_voxels_count_and_the_rest_is_zero() -> None:
    values, inside = volume(), np.zeros((6, 7, 8), bool)
    inside[2:4] = True
    values[0] = 1e6
    made = normalised(values, inside, True, "zscore", "x")
    assert (made[~inside] == 0).all() and abs(made[inside].mean()) < 1e-6 and abs(made[inside].std() - 1) < 1e-6


def test_large_values_lose_no_digits() -> None:
    values = volume() + np.float32(1e6)
    made = normalised(values, np.ones(values.shape, bool), False, "zscore", "x")
    assert abs(float(made.astype(np.float64).std()) - 1) < 1e-5


@pytest.mark.parametrize("normalisation", ["zscore", "minmax", "percentile"])
def test_equal_voxels_cannot_be_normalised(normalisation: str) -> None:
    values, inside = volume(), np.zeros((6, 7, 8), bool)
    inside[1], values[1] = True, 5
    with pytest.raises(DataError, match=f"x cannot be normalised by {normalisation}, its voxels that count differ by 0; use another norm"):
        normalised(values, inside, True, normalisation, "x")


def test_nothing_inside_is_refused() -> None:
    with pytest.raises(DataError, match="x has no voxel within its mask and the wanted shape; correct the mask"):
        normalised(volume(), np.zeros((6, 7, 8), bool), True, "none", "x")
