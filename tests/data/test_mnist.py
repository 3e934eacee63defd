from __future__ import annotations

import gzip
import pathlib
import struct

import numpy as np
import pytest

from hetero_mtf.data import load
from hetero_mtf.errors import DataError

FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">{1 + array.ndim}I", 0x0800 | array.ndim, *array.shape) + array.astype("uint8").tobytes()


@pytest.fixture
def folder(tmp_path: pathlib.Path, rng: np.random.Generator) -> pathlib.Path:
    for part, count in (("train", 6), ("t10k", 3)):
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(idx(rng.integers(0, 256, (count, 5, 4))))
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(idx(np.arange(count)))
    return tmp_path


def test_plain_files_become_images_from_zero_to_one(folder: pathlib.Path) -> None:
    data = load(f"mnist:{folder}", dtype="float64")
    body = np.frombuffer((folder / FILES[0]).read_bytes()[16:], "uint8").reshape(6, 5, 4, 1)
    np.testing.assert_allclose(data.x_train, body / 255)
    assert data.x_test.shape == (3, 5, 4, 1) and data.x_train.dtype == "float64"
    assert data.y_train.tolist() == [0, 1, 2, 3, 4, 5] and data.classes == 6


def test_gzipped_files_and_dotted_names_are_the_same(folder: pathlib.Path) -> None:
    expected = load(f"mnist:{folder}")
    for name in FILES[:2]:
        (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
        (folder / name).unlink()
    (folder / FILES[2]).rename(folder / "t10k-images.idx3-ubyte")
    found = load(f"mnist:{folder}")
    np.testing.assert_array_equal(found.x_train, expected.x_train)
    np.testing.assert_array_equal(found.x_test, expected.x_test)


def test_all_missing_files_are_named_at_once(folder: pathlib.Path) -> None:
    (folder / FILES[0]).unlink()
    (folder / FILES[3]).unlink()
    with pytest.raises(DataError, match=rf"{folder} lacks {FILES[0]}, {FILES[3]} \(or the same with .gz\); put the missing MNIST files"):
        load(f"mnist:{folder}")


def test_a_missing_folder_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(DataError, match="none is not a folder; name the one that holds train-images-idx3-ubyte"):
        load(f"mnist:{tmp_path / 'none'}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda body: body[:9], "is truncated: expected a header of 16 bytes, found 9; fetch the file again"),
        (lambda body: body[:-7], r"wrong length: its header says \[6, 5, 4\], expected 120 bytes after it, found 113; fetch"),
        (lambda body: body + b"x", "expected 120 bytes after it, found more than 120; fetch"),
        (lambda body: b"\x00\x00\x08\x01" + body[4:], "is not the IDX file of its name: expected magic number 2051, found 2049; fetch"),
        (lambda body: b"<html>" * 30, "expected magic number 2051, found"),
        (lambda body: idx(np.zeros((0, 5, 4))), r"header says \[0, 5, 4\], expected 0 bytes"),
        (lambda body: body[:4] + b"\xff" * 12 + body[16:], "expected 79228162458924105385300197375 bytes after it, found 120"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_damaged_file_is_named_with_what_was_expected(folder: pathlib.Path, change, message: str, packed: bool) -> None:
    path = folder / FILES[0]
    body = change(path.read_bytes())
    path.unlink()
    path = path.with_name(f"{path.name}.gz") if packed else path
    path.write_bytes(gzip.compress(body) if packed else body)
    with pytest.raises(DataError, match=f"{path} .*{message}"):
        load(f"mnist:{folder}")


@pytest.mark.parametrize("change", [lambda body: body[:-20], lambda body: b"no gzip" * 9, lambda body: body[:-8] + b"\0" * 8])
def test_a_damaged_gzip_file_is_named(folder: pathlib.Path, change) -> None:
    path = folder / f"{FILES[0]}.gz"
    path.write_bytes(change(gzip.compress((folder / FILES[0]).read_bytes())))
    (folder / FILES[0]).unlink()
    with pytest.raises(DataError, match=rf"{path} is not a complete gzip file \(.*\); fetch the file again"):
        load(f"mnist:{folder}")


def test_images_and_labels_of_different_number_are_refused(folder: pathlib.Path) -> None:
    (folder / FILES[1]).write_bytes(idx(np.arange(5)))
    with pytest.raises(DataError, match="has 6 images and train-labels-idx1-ubyte 5 labels; fetch the file again"):
        load(f"mnist:{folder}")


def test_a_file_that_cannot_be_read_is_named(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: pathlib.Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pathlib.Path, "open", refuse)
    with pytest.raises(DataError, match=f"cannot read {folder / FILES[0]}: Permission denied; check the path"):
        load(f"mnist:{folder}")
