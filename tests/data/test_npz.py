from __future__ import annotations

import pathlib

import numpy as np
import pytest

from hetero_mtf.data import load
from hetero_mtf.errors import DataError

X, Y = np.arange(40, dtype="uint8").reshape(10, 2, 2, 1), np.arange(10) % 2


def saved(tmp_path: pathlib.Path, **arrays) -> pathlib.Path:
    path = tmp_path / "data.npz"
    np.savez(path, **arrays)
    return path


def test_all_four_arrays_are_taken_as_they_are(tmp_path: pathlib.Path) -> None:
    data = load(f"npz:{saved(tmp_path, x_train=X, y_train=Y, x_test=X[:3], y_test=Y[:3])}", dtype="float64")
    np.testing.assert_array_equal(data.x_train, X)
    np.testing.assert_array_equal(data.y_test, Y[:3])
    assert data.x_train.dtype == "float64" and data.classes == 2


@pytest.mark.parametrize("names", [("x_train", "y_train"), ("x", "y")])
def test_without_a_test_part_a_fifth_is_held_out(tmp_path: pathlib.Path, names: tuple[str, str]) -> None:
    data = load(f"npz:{saved(tmp_path, **dict(zip(names, (X, Y))))}")
    assert (len(data.x_train), len(data.x_test)) == (8, 2)
    assert sorted(data.y_test) == [0, 1]


def test_targets_that_are_not_classes_stay(tmp_path: pathlib.Path) -> None:
    data = load(f"npz:{saved(tmp_path, x=X, y=np.linspace(0, 1, 10))}")
    assert data.classes == 0 and data.y_train.dtype == "float64"


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x_train": X, "y_test": Y}, "lacks y_train, x_test: found x_train, y_test; write it again with numpy.savez"),
        ({"x": X}, "lacks x_train, y_train: found x; write"),
        ({"x": X, "y": Y[:4]}, "has 10 samples and 4 labels: expected as many of both, two at least; write"),
        ({"x": X[:0], "y": Y[:0]}, r"has x_train of shape \(0, 2, 2, 1\): expected \(samples, ...\), at least one sample; write"),
        ({"x": Y, "y": Y}, r"has x_train of shape \(10,\): expected \(samples, features\)"),
        ({"x": X, "y": np.array([{}] * 10)}, "is not a complete .npz file of plain numbers .*pickle.*; write"),
        ({"x": X, "y": np.array(["a"] * 10)}, "y_train in .* holds values of type <U1, not numbers"),
    ],
)
def test_arrays_of_the_wrong_form_are_named(tmp_path: pathlib.Path, arrays: dict, message: str) -> None:
    path = saved(tmp_path, **arrays)
    with pytest.raises(DataError, match=message) as caught:
        load(f"npz:{path}")
    assert str(path) in str(caught.value)


def test_values_that_are_no_numbers_are_counted(tmp_path: pathlib.Path) -> None:
    x = np.where(np.arange(10)[:, None] == 7, np.nan, np.zeros((10, 3)))
    with pytest.raises(DataError, match="x_train in .* has NaN or infinite values in 1 of 10 samples, the first at 7; remove them"):
        load(f"npz:{saved(tmp_path, x=x, y=Y)}")


def test_a_damaged_or_missing_file_is_named(tmp_path: pathlib.Path) -> None:
    path = saved(tmp_path, x=X, y=Y)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=f"{path} is not a complete .npz file of plain numbers .*; write it again"):
        load(f"npz:{path}")
    with pytest.raises(DataError, match="none.npz does not exist; check the path behind npz:"):
        load(f"npz:{tmp_path / 'none.npz'}")
    np.save(tmp_path / "one.npy", X)
    with pytest.raises(DataError, match="one.npy holds one array without a name: expected an .npz file"):
        load(f"npz:{tmp_path / 'one.npy'}")
