"""What is written is what NumPy reads, and a full disk leaves nothing open."""

from __future__ import annotations

import gc
import io
import pathlib
from typing import Any

import numpy as np
import pytest

from hetero_mtf.npz_file import write_npz

ARRAYS: dict[str, Any] = {
    "file": np.arange(6.0, dtype=np.float32).reshape(2, 3),
    "args": np.array(["sub-01", "Zoë"]),
    "layer/kernel:0": np.asfortranarray(np.arange(12, dtype=np.int64).reshape(3, 4)),
    "none": np.zeros((0, 3), bool),
    "one": 7,
}


class FullDisk(io.BytesIO):
    """A file whose disk is full after some bytes, until they are fewer again."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__()
        self.left_bytes = size_bytes

    def write(self, data: Any) -> int:
        self.left_bytes -= len(data)
        if self.left_bytes < 0:
            raise OSError(27, "File too large")
        return super().write(data)


def test_numpy_reads_what_is_written_under_any_name(tmp_path: pathlib.Path) -> None:
    with open(tmp_path / "a.npz", "wb") as file:
        write_npz(file, ARRAYS)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as read:
        assert sorted(read) == sorted(ARRAYS)
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(read[name], array)
            assert read[name].dtype == np.asarray(array).dtype


def test_a_full_disk_is_one_error_and_nothing_is_written_later() -> None:
    whole = io.BytesIO()
    write_npz(whole, ARRAYS)
    gc.freeze()  # what other tests left need not be gone through each time
    try:
        for size_bytes in range(0, len(whole.getvalue()), 7):
            file = FullDisk(size_bytes)
            with pytest.raises(OSError, match="File too large"):
                write_npz(file, ARRAYS)
            file.close()
            gc.collect()  # an archive that is still open writes its end here; pytest makes its exception a failure
    finally:
        gc.unfreeze()


def test_objects_are_refused() -> None:
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        write_npz(io.BytesIO(), {"x": np.array([{}], object)})
