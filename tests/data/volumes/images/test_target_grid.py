from __future__ import annotations

import nibabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nibabel import orientations, processing
from scipy import ndimage

from hetero_mtf.data.volumes import Preprocessing
from hetero_mtf.data.volumes.images.target_grid import fit_grid, fitted
from tests.cases import each

CODES = ["RAS", "LPS", "SRP", "AIL", "PSR", "LIA"]


def turned(values: np.ndarray, affine: np.ndarray, codes: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the same volume stored with other axes."""
    ornt = orientations.ornt_transform(orientations.io_orientation(affine), orientations.axcodes2ornt(codes))
    return orientations.apply_orientation(values, ornt), affine @ orientations.inv_ornt_aff(ornt, values.shape)


def rotated(affine: np.ndarray, degrees: float) -> np.ndarray:
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.array([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]) @ affine


def ramp(affine: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return a volume whose values are a linear function of the place in the scanner."""
    places = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), -1) @ affine[:3, :3].T + affine[:3, 3]
    return (places @ [1.0, 10.0, 100.0] + 7).astype(np.float32)


def assert_ramp(values: np.ndarray, affine: np.ndarray, where: np.ndarray, tolerance: float = 1e-2) -> None:
    np.testing.assert_allclose(values[where], ramp(affine, values.shape)[where], atol=tolerance)


@settings(max_examples=60)
@given(
    shape=st.tuples(*[st.integers(2, 7)] * 3),
    result=st.tuples(*[st.integers(2, 8)] * 3),
    stored=st.sampled_from(CODES),
    wanted=st.sampled_from(CODES),
)
def test_without_resampling_every_voxel_of_the_result_is_the_scans_voxel_at_its_place(shape, result, stored, wanted) -> None:
    affine = np.diag([1.5, 2.0, 2.5, 1.0])
    affine[:3, 3] = (5, -6, 7)
    values, own = turned(ramp(affine, shape), affine, stored)
    fit = fit_grid(values.shape, own, Preprocessing(result, orientation=wanted))
    made = fitted(values, fit, order=3)
    inside = np.isfinite(made)
    assert fit.exact and made.shape == result and orientations.aff2axcodes(fit.affine) == tuple(wanted)
    order = [next(at for at, pair in enumerate(("RL", "AP", "SI")) if letter in pair) for letter in wanted]
    assert inside.sum() == np.prod([min(shape[at], result[axis]) for axis, at in enumerate(order)])
    assert_ramp(made, fit.affine, inside, 1e-3)


def test_cropping_and_padding_keep_the_middle() -> None:
    values = np.arange(7.0 * 4 * 2).reshape(7, 4, 2).astype(np.float32)
    fit = fit_grid(values.shape, np.eye(4), Preprocessing((3, 4, 6)))
    made = fitted(values, fit, 1, outside=-1)
    np.testing.assert_array_equal(made[:, :, 2:4], values[2:5])
    assert (made[:, :, [0, 1, 4, 5]] == -1).all()
    assert fit.notes == ("cropped by 4 x 0 x 0 voxels", "padded by 0 x 0 x 4 voxels")


def test_of_an_odd_number_of_voxels_too_many_one_more_goes_at_the_beginning_and_is_added_at_the_end() -> None:
    values = np.arange(5.0 * 4 * 4).reshape(5, 4, 4).astype(np.float32)
    made = fitted(values, fit_grid(values.shape, np.eye(4), Preprocessing((4, 5, 4))), 1, outside=-1)
    np.testing.assert_array_equal(made[:, :4], values[1:])
    assert (made[:, 4] == -1).all()


@each("stored", CODES)
@each("spacing", [(1.0, 1.5, 3.0), (2.0, 2.0, 2.0)])
@each("degrees", [0.0, 0.04, 11.0])
@each("order", [1, 3])
def test_resampling_keeps_places_whatever_the_axes_and_however_oblique(stored: str, spacing, degrees: float, order: int) -> None:
    affine = rotated(np.diag([2.0, 1.6, 2.4, 1.0]), degrees)
    affine[:3, 3] = (-3, 8, 1)
    values, own = turned(ramp(affine, (14, 15, 16)), affine, stored)
    fit = fit_grid(values.shape, own, Preprocessing((6, 7, 5), spacing))
    made = fitted(values, fit, order)
    assert not fit.exact and np.isfinite(made).all()
    np.testing.assert_allclose(np.sqrt((fit.affine[:3, :3] ** 2).sum(0)), spacing)
    assert_ramp(made, fit.affine, np.isfinite(made), 0.5 if order == 3 else 1e-2)
    if degrees > 1:
        np.testing.assert_allclose(fit.affine[:3, :3], np.diag(spacing), atol=1e-9)


def test_resampling_to_a_finer_grid_is_that_of_nibabel() -> None:
    values = np.random.default_rng(0).normal(size=(12, 13, 14)).astype(np.float32)
    affine = rotated(np.diag([2.0, 2.0, 2.0, 1.0]), 20)
    fine = fit_grid(values.shape, affine, Preprocessing((7, 7, 7), (1.5, 1.5, 1.5)))
    expected = processing.resample_from_to(nibabel.Nifti1Image(values, affine), (fine.shape, fine.affine), order=1, mode="nearest")
    np.testing.assert_allclose(fitted(values, fine, 1), expected.get_fdata(), atol=1e-4)


def test_the_middle_of_the_scan_is_the_middle_of_the_result() -> None:
    affine = rotated(np.diag([-1.0, 2.0, 1.5, 1.0]), 30)
    affine[:3, 3] = (40, -20, 5)
    fit = fit_grid((9, 10, 11), affine, Preprocessing((8, 5, 6), (3, 2, 1)))
    np.testing.assert_allclose(fit.affine @ [3.5, 2, 2.5, 1], affine @ [4, 4.5, 5, 1])


def test_the_outer_half_of_the_outermost_voxels_belongs_to_the_scan_and_beyond_is_padding() -> None:
    values = np.arange(1.0, 9).reshape(2, 2, 2).astype(np.float32)
    made = fitted(values, fit_grid((2, 2, 2), np.eye(4), Preprocessing((4, 4, 4), (0.5, 0.5, 0.5))), 1)
    assert np.isfinite(made).all() and made[0, 0, 0] == 1 and made[-1, -1, -1] == 8
    made = fitted(values, fit_grid((2, 2, 2), np.eye(4), Preprocessing((10, 4, 4), (0.5, 0.5, 0.5))), 1, outside=-5)
    assert (made[[0, 1, -2, -1]] == -5).all() and (made[3:7] > 0).all()


def test_a_coarser_grid_is_smoothed_and_a_mask_is_not() -> None:
    values = np.indices((32, 32, 32)).sum(0) % 2 * 1.0
    fit = fit_grid(values.shape, np.eye(4), Preprocessing((8, 8, 8), (4, 4, 4)))
    assert abs(fitted(values.astype(np.float32), fit, 1) - 0.5).max() < 0.01
    assert set(np.unique(fitted(values.astype(np.float32), fit, 0))) <= {0.0, 1.0}


@pytest.mark.parametrize("factors", [(3.0, 1.0, 1.0), (2.5, 2.0, 4.0)])
def test_the_smoothing_is_a_gaussian_of_half_the_surplus_along_each_axis(factors: tuple[float, ...]) -> None:
    values = np.random.default_rng(3).normal(size=(21, 22, 23)).astype(np.float32)
    stored, own = turned(values, np.eye(4), "PSR")
    fit = fit_grid(stored.shape, own, Preprocessing((4, 4, 4), factors))
    smoothed = ndimage.gaussian_filter(values, [(factor - 1) / 2 for factor in factors], mode="nearest")
    expected = processing.resample_from_to(nibabel.Nifti1Image(smoothed, np.eye(4)), (fit.shape, fit.affine), order=1)
    np.testing.assert_allclose(fitted(stored, fit, 1), expected.get_fdata(), atol=1e-4)


def test_an_oblique_scan_is_resampled_even_at_its_own_spacing() -> None:
    affine = rotated(np.diag([2.0, 2.0, 2.5, 1.0]), 25)
    for spacing in (None, (2.0, 2.0, 2.5)):
        fit = fit_grid((15, 15, 15), affine, Preprocessing((6, 6, 6), spacing))
        made = fitted(ramp(affine, (15, 15, 15)), fit, 1)
        np.testing.assert_allclose(fit.affine[:3, :3], np.diag([2, 2, 2.5]), atol=1e-9)
        assert_ramp(made, fit.affine, np.isfinite(made))
        assert not fit.exact and np.isfinite(made).all()


@pytest.mark.parametrize("codes", [*CODES, "PIL", "IRP"])
def test_an_oblique_scan_is_turned_to_any_axes(codes: str) -> None:
    affine, spacing = rotated(np.diag([2.0, 1.6, 2.4, 1.0]), 25), (3.0, 4.0, 5.0)
    fit = fit_grid((14, 15, 16), affine, Preprocessing((4, 3, 2), spacing, orientation=codes))
    made = fitted(ramp(affine, (14, 15, 16)), fit, 1)
    assert orientations.aff2axcodes(fit.affine) == tuple(codes) and made.shape == (4, 3, 2)
    np.testing.assert_allclose(np.abs(fit.affine[:3, :3]).max(axis=0), spacing)
    assert_ramp(made, fit.affine, np.isfinite(made))


def test_a_spacing_that_is_the_scans_own_but_for_rounding_takes_its_very_voxels() -> None:
    values = np.random.default_rng(0).normal(size=(6, 6, 6)).astype(np.float32)
    fit = fit_grid(values.shape, np.diag([0.99995, 1.00005, 1, 1]), Preprocessing((6, 6, 6), (1, 1, 1)))
    assert fit.exact and np.array_equal(fitted(values, fit, 3), values)


def test_what_is_done_is_noted() -> None:
    affine = rotated(np.diag([-1.0, 1.0, 2.0, 1.0]), 12)
    assert fit_grid((20, 20, 10), affine, Preprocessing((20, 20, 20), (1, 1, 1))).notes == (
        "turned from LAS to RAS",
        "resampled from 1 x 1 x 2 to 1 x 1 x 1 mm",
        "oblique by 12 degrees: resampled along the scanner's axes",
    )
    assert fit_grid((5, 5, 5), np.eye(4), Preprocessing((5, 5, 5))).notes == ()
