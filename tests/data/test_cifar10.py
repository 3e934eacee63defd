from __future__ import annotations

import pathlib
import pickle

import numpy as np
import pytest

from hetero_mtf.data import load
from hetero_mtf.errors import DataError

STEMS = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]


@pytest.fixture
def batches(rng: np.random.Generator) -> dict[str, tuple[np.ndarray, list[int]]]:
    return {stem: (rng.integers(0, 256, (4, 3072), dtype="uint8"), rng.integers(0, 10, 4).tolist()) for stem in STEMS}


def write_python(folder: pathlib.Path, batches: dict) -> pathlib.Path:
    folder.mkdir(exist_ok=True)
    for stem, (data, labels) in batches.items():
        (folder / stem).write_bytes(pickle.dumps({b"data": data, b"labels": labels}, protocol=2))
    return folder


def write_binary(folder: pathlib.Path, batches: dict) -> pathlib.Path:
    folder.mkdir(exist_ok=True)
    for stem, (data, labels) in batches.items():
        (folder / f"{stem}.bin").write_bytes(np.concatenate([np.array(labels, "uint8")[:, None], data], axis=1).tobytes())
    return folder


def expected(data: np.ndarray) -> np.ndarray:
    return np.stack([data[:, plane * 1024 : (plane + 1) * 1024].reshape(-1, 32, 32) for plane in range(3)], axis=-1) / 255


@pytest.mark.parametrize("write", [write_python, write_binary])
@pytest.mark.parametrize("inner", [False, True])
def test_both_forms_give_the_same_images(tmp_path: pathlib.Path, batches: dict, write, inner: bool) -> None:
    name = "cifar-10-batches-py" if write is write_python else "cifar-10-batches-bin"
    write(tmp_path / name if inner else tmp_path, batches)
    data = load(f"cifar10:{tmp_path}", dtype="float64")
    np.testing.assert_allclose(data.x_train, expected(np.concatenate([batches[stem][0] for stem in STEMS[:5]])))
    np.testing.assert_allclose(data.x_test, expected(batches["test_batch"][0]))
    assert data.y_test.tolist() == batches["test_batch"][1]
    assert data.x_train.shape == (20, 32, 32, 3) and data.classes == 10 and data.x_train.flags.c_contiguous


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_of_any_protocol_is_read(tmp_path: pathlib.Path, batches: dict, protocol: int) -> None:
    write_python(tmp_path, batches)
    data, labels = batches["test_batch"]
    (tmp_path / "test_batch").write_bytes(pickle.dumps({"data": data, "labels": np.array(labels)}, protocol=protocol))
    assert load(f"cifar10:{tmp_path}").y_test.tolist() == labels


def test_all_missing_files_are_named_at_once(tmp_path: pathlib.Path, batches: dict) -> None:
    for stem in ("data_batch_2", "test_batch"):
        del batches[stem]
    write_binary(tmp_path, batches)
    with pytest.raises(DataError, match=f"{tmp_path} lacks data_batch_2.bin, test_batch.bin; put the missing CIFAR-10 files there"):
        load(f"cifar10:{tmp_path}")


def test_a_missing_folder_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(DataError, match="none is not a folder; name the one that holds data_batch_1 or data_batch_1.bin"):
        load(f"cifar10:{tmp_path / 'none'}")


def test_a_truncated_binary_file_is_named(tmp_path: pathlib.Path, batches: dict) -> None:
    path = write_binary(tmp_path, batches) / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=f"{path} is truncated: expected a multiple of 3073 bytes, found 12192; fetch the file again"):
        load(f"cifar10:{tmp_path}")


def test_a_file_truncated_between_images_is_found_by_comparison(tmp_path: pathlib.Path, batches: dict) -> None:
    path = write_binary(tmp_path, batches) / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:3073])
    with pytest.raises(DataError, match="differ in length: data_batch_1.bin has 4 images, data_batch_3.bin has 1; fetch the shorter ones"):
        load(f"cifar10:{tmp_path}")


@pytest.mark.parametrize("write", [write_python, write_binary])
def test_labels_beyond_nine_are_refused(tmp_path: pathlib.Path, batches: dict, write) -> None:
    batches["test_batch"] = (batches["test_batch"][0], [0, 1, 2, 17])
    write(tmp_path, batches)
    with pytest.raises(DataError, match="has labels from 0 to 17: expected 0 to 9; fetch the file again"):
        load(f"cifar10:{tmp_path}")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([1, 2], "expected a dict with data and labels, found no data and no labels; fetch"),
        ({b"data": np.zeros((1, 3072), "uint8")}, "found no labels; fetch"),
        ({b"data": np.zeros((2, 3072), "uint8"), b"labels": [1]}, r"wrong form: expected uint8 \(1, 3072\), found uint8 \(2, 3072\)"),
        ({b"data": np.zeros((1, 3072)), b"labels": [1]}, r"found float64 \(1, 3072\); fetch"),
        ({b"data": [1], b"labels": [1]}, "found list; fetch"),
        ({b"data": np.zeros((0, 3072), "uint8"), b"labels": np.zeros(0, "int64")}, r"\(10000, 3072\), found uint8 \(0, 3072\)"),
        ({b"data": np.zeros((1, 3072), "uint8"), b"labels": [[1], [2, 3]]}, "labels of the wrong form: expected a list of whole numbers"),
        ({b"data": np.zeros((1, 3072), "uint8"), b"labels": "x"}, "labels of the wrong form: expected a list of whole numbers, found str"),
    ],
)
def test_a_pickle_of_the_wrong_form_is_named(tmp_path: pathlib.Path, batches: dict, document, message: str) -> None:
    path = write_python(tmp_path, batches) / "data_batch_1"
    path.write_bytes(pickle.dumps(document))
    with pytest.raises(DataError, match=f"{path} .*{message}"):
        load(f"cifar10:{tmp_path}")


@pytest.mark.parametrize("name", ["data_batch_4", "data_batch_4.bin"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: pathlib.Path, batches: dict, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (write_binary if name.endswith("bin") else write_python)(tmp_path, batches)
    opened = pathlib.Path.open

    def refuse(path: pathlib.Path, *arguments, **options):
        if path.name == name:
            raise PermissionError(13, "Permission denied")
        return opened(path, *arguments, **options)

    monkeypatch.setattr(pathlib.Path, "open", refuse)
    with pytest.raises(DataError, match=f"cannot read {tmp_path / name}: Permission denied; check the path"):
        load(f"cifar10:{tmp_path}")
