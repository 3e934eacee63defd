from __future__ import annotations

import dataclasses
import json

import pytest

from hetero_mtf.data.volumes import Preprocessing
from hetero_mtf.errors import DataError

STEPS = Preprocessing((4, 5, 6), (1, 2.5, 3), "LPS", 3, "percentile", "otsu", 1, 0.25)


def test_json_holds_every_choice_and_gives_the_same_steps_back() -> None:
    for steps in (STEPS, Preprocessing((4, 5, 6))):
        again = Preprocessing.from_json(json.loads(json.dumps(steps.to_json())))
        assert again == steps and again.digest == steps.digest and hash(again) == hash(steps)


def test_lists_and_whole_millimetres_are_the_same_steps() -> None:
    assert Preprocessing([4, 5, 6], [1, 2, 3]) == Preprocessing((4, 5, 6), (1.0, 2.0, 3.0))
    assert Preprocessing([4, 5, 6], [1, 2, 3]).digest == Preprocessing((4, 5, 6), (1.0, 2.0, 3.0)).digest


@pytest.mark.parametrize(
    "change",
    [
        {"shape": (4, 5, 7)},
        {"spacing_mm": None},
        {"orientation": "RAS"},
        {"interpolation": 1},
        {"normalisation": "none"},
        {"mask": "none"},
        {"volume": None},
        {"nan_share": 0.0},
    ],
)
def test_every_choice_changes_the_digest_and_the_log(change: dict) -> None:
    other = dataclasses.replace(STEPS, **change)
    assert other.digest != STEPS.digest and other.lines() != STEPS.lines()


def test_the_log_says_every_choice() -> None:
    assert STEPS.lines() == (
        "axes turned to LPS",
        "resampled to 1 x 2.5 x 3 mm (cubic)",
        "cropped or padded about the middle to 4 x 5 x 6 voxels",
        "mask of the head against the background (Otsu's threshold)",
        "normalised: first percentile 0, last 1, the rest clipped",
        "volume 1 of files with several; NaN and infinite voxels set to 0, up to 0.25 of a scan",
    )
    assert Preprocessing((4, 5, 6)).lines()[1] == "each scan's own spacing kept (linear)"


def test_the_axis_between_left_and_right_follows_the_orientation() -> None:
    assert [Preprocessing((4, 4, 4), orientation=codes).left_right_axis for codes in ("RAS", "AIL", "SRP")] == [0, 2, 1]


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"shape": (4, 5)}, r"shape is \(4, 5\); give three whole numbers from 2"),
        ({"shape": (4, 5, 1)}, r"shape is \(4, 5, 1\); give three whole numbers from 2"),
        ({"shape": (4, 5, 6.0)}, r"shape is \(4, 5, 6.0\)"),
        ({"shape": (4, 5, True)}, r"shape is \(4, 5, True\)"),
        ({"shape": (2000, 2000, 2000)}, r"of 268435456 voxels at most together"),
        ({"shape": 64}, r"shape is 64; give three"),
        ({"spacing_mm": (1, 0, 1)}, r"spacing_mm is \(1, 0, 1\); give three numbers from 0.01 to 100, or None"),
        ({"spacing_mm": (1, float("nan"), 1)}, r"spacing_mm is \(1, nan, 1\)"),
        ({"orientation": "RAX"}, r"orientation is 'RAX'; give one letter each of L or R, P or A, S or I, such as RAS"),
        ({"orientation": "RLA"}, r"orientation is 'RLA'"),
        ({"interpolation": 4}, r"interpolation is 4; use one of 0, 1, 2, 3"),
        ({"interpolation": True}, r"interpolation is True"),
        ({"normalisation": "z"}, r"normalisation is 'z'; use one of zscore, minmax, percentile, none"),
        ({"mask": "skull"}, r"mask is 'skull'; use one of none, nonzero, otsu, table"),
        ({"volume": -1}, r"volume is -1; use a whole number from 0, or None"),
        ({"nan_share": 1}, r"nan_share is 1; use a number from 0, below 1"),
        ({"nan_share": "x", "volume": "first"}, r"volume is 'first'; .*; nan_share is 'x'; use"),
    ],
)
def test_choices_out_of_range_are_all_named(choices: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Preprocessing(**{"shape": (4, 5, 6), **choices})


def test_a_stored_document_with_other_entries_is_refused() -> None:
    document = STEPS.to_json()
    with pytest.raises(DataError, match="the stored preprocessing has .* and not the entries shape, spacing_mm, .*; train again"):
        Preprocessing.from_json({name: value for name, value in document.items() if name != "mask"})
    with pytest.raises(DataError, match="the stored preprocessing has 'x' and not"):
        Preprocessing.from_json("x")
    with pytest.raises(DataError, match="mask is 3; use one of"):
        Preprocessing.from_json({**document, "mask": 3})
