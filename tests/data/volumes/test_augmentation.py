from __future__ import annotations

import numpy as np
import pytest

from hetero_mtf.data.volumes import Augmentation
from hetero_mtf.data.volumes.augmentation import augmented
from hetero_mtf.errors import DataError

VALUES = np.random.default_rng(0).normal(3, 2, (6, 7, 8)).astype(np.float32)


def drawn(augmentation: Augmentation, count: int = 40, axis: int = 0) -> list[np.ndarray]:
    return [augmented(VALUES, augmentation, (1, 2, sample), axis) for sample in range(count)]


def test_the_same_key_draws_the_same_and_any_other_part_of_it_something_else() -> None:
    changes = Augmentation(True, 2, 0.1)
    first = augmented(VALUES, changes, (1, 2, 3))
    np.testing.assert_array_equal(first, augmented(VALUES, changes, (1, 2, 3)))
    for key in ((0, 2, 3), (1, 0, 3), (1, 2, 0)):
        assert not np.array_equal(first, augmented(VALUES, changes, key))
    assert first.dtype == np.float32


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_about_half_are_flipped_and_only_between_left_and_right(axis: int) -> None:
    made = drawn(Augmentation(flip=True), 200, axis)
    flipped = [np.array_equal(values, np.flip(VALUES, axis)) for values in made]
    assert 70 < sum(flipped) < 130
    assert all(was or np.array_equal(values, VALUES) for was, values in zip(flipped, made))


def test_shifts_reach_their_limit_both_ways_and_fill_with_the_outermost_voxels() -> None:
    line = np.broadcast_to(np.arange(6, dtype=np.float32)[:, None, None], (6, 7, 8))
    found = {tuple(augmented(line, Augmentation(shift_voxels=2), (0, 0, sample))[:, 0, 0]) for sample in range(100)}
    assert found == {(0, 1, 2, 3, 4, 5), (0, 0, 1, 2, 3, 4), (0, 0, 0, 1, 2, 3), (1, 2, 3, 4, 5, 5), (2, 3, 4, 5, 5, 5)}


def test_axes_are_shifted_each_on_its_own() -> None:
    spot = np.zeros((5, 5, 5), np.float32)
    spot[2, 2, 2] = 1
    places = {tuple(np.argwhere(augmented(spot, Augmentation(shift_voxels=1), (0, 0, n)) == 1)[0]) for n in range(300)}
    assert len(places) == 27


def test_noise_has_the_wanted_part_of_the_volumes_spread() -> None:
    added = np.stack(drawn(Augmentation(noise=0.25))) - VALUES
    assert abs(added.std() / VALUES.std() - 0.25) < 0.01 and abs(added.mean()) < 0.02


def test_switching_a_change_off_leaves_the_draws_of_the_others() -> None:
    flips = drawn(Augmentation(flip=True))
    noises = [made - base for made, base in zip(drawn(Augmentation(True, 0, 0.1)), flips)]
    alone = [made - VALUES for made in drawn(Augmentation(noise=0.1))]
    np.testing.assert_allclose(noises, alone, atol=1e-5)


def test_without_changes_the_volume_is_handed_over_and_it_is_never_written_to() -> None:
    fixed = VALUES.copy()
    fixed.flags.writeable = False
    assert augmented(fixed, Augmentation(), (0, 0, 0)) is fixed
    augmented(fixed, Augmentation(True, 3, 0.5), (0, 0, 0))
    np.testing.assert_array_equal(fixed, VALUES)


def test_a_shift_beyond_the_volume_leaves_its_outermost_voxels() -> None:
    assert augmented(VALUES, Augmentation(shift_voxels=50), (0, 0, 1)).shape == VALUES.shape


def test_the_log_and_the_document_say_what_is_changed() -> None:
    assert Augmentation().lines() == ()
    assert Augmentation(True, 3, 0.05).lines() == (
        "left and right exchanged in half of the volumes",
        "shifted by up to 3 voxels along each axis",
        "noise of 0.05 of the volume's standard deviation added",
    )
    assert Augmentation(**Augmentation(True, 3, 0.05).to_json()) == Augmentation(True, 3, 0.05)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"flip": 1}, "flip is 1; use True or False"),
        ({"shift_voxels": -1}, "shift_voxels is -1; use a whole number from 0"),
        ({"shift_voxels": 1.5}, "shift_voxels is 1.5"),
        ({"noise": float("nan")}, "noise is nan; use a number from 0, such as 0.05"),
        ({"noise": -0.1, "flip": "x"}, "flip is 'x'; .*; noise is -0.1; use"),
    ],
)
def test_values_out_of_range_are_all_named(changes: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Augmentation(**changes)
