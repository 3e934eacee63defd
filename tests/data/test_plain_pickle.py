from __future__ import annotations

import os
import pathlib
import pickle

import numpy as np
import pytest

from hetero_mtf.data.plain_pickle import read_plain_pickle
from hetero_mtf.errors import DataError


class Evil:
    def __init__(self, path: pathlib.Path) -> None:
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_plain_data_comes_back_as_it_was(tmp_path: pathlib.Path) -> None:
    document = {"a": [1, 2.5, None, True], b"b": (b"bytes", "text"), 3: {"inner": np.arange(6).reshape(2, 3)}}
    path = tmp_path / "file"
    path.write_bytes(pickle.dumps(document))
    found = read_plain_pickle(path)
    np.testing.assert_array_equal(found[3].pop("inner"), document[3].pop("inner"))
    assert found == document


def test_a_pickle_that_asks_for_a_function_is_refused_and_nothing_runs(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(pickle.dumps({"data": Evil(tmp_path / "made")}))
    with pytest.raises(DataError, match=f"{path} asks for posix.mkdir, which plain data does not need; do not trust this file"):
        read_plain_pickle(path)
    assert not (tmp_path / "made").exists()


def test_objects_inside_an_array_are_refused_too(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(pickle.dumps(np.array([Evil(tmp_path / "made")], dtype=object)))
    with pytest.raises(DataError, match="asks for posix.mkdir"):
        read_plain_pickle(path)
    assert not (tmp_path / "made").exists()


def test_an_array_that_starts_huge_is_refused(tmp_path: pathlib.Path) -> None:
    class Huge:
        def __reduce__(self):
            return np.zeros(0).__reduce__()[0], (np.ndarray, (10**14,), b"b")

    path = tmp_path / "file"
    path.write_bytes(pickle.dumps(Huge()))
    with pytest.raises(DataError, match=r"not a complete pickle file \(ValueError: an array that starts with shape \(100000000000000,\)\)"):
        read_plain_pickle(path)


@pytest.mark.parametrize("body", [b"", b"no pickle", pickle.dumps(list(range(1000)))[:-5], b"\x80\xff"])
def test_a_damaged_file_is_named(tmp_path: pathlib.Path, body: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(body)
    with pytest.raises(DataError, match=f"{path} is not a complete pickle file .*; fetch the file again"):
        read_plain_pickle(path)


def test_a_missing_file_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(DataError, match=f"cannot read {tmp_path / 'none'}: No such file or directory; check the path"):
        read_plain_pickle(tmp_path / "none")
