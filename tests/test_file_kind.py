"""A file that was given in the place of another is named for what it is."""

from __future__ import annotations

import io
import json
import pathlib
import zipfile
from typing import Any

import numpy as np
import pytest

from hetero_mtf.file_kind import file_kind, in_place_of


def _npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _zip(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, "{}")
    return file.getvalue()


KINDS = {
    "plan": (json.dumps({"kind": "plan", "version": 2}).encode(), "a plan"),
    "profile": (b'{"kind": "profile"}', "a profile"),
    "measured": (b'{"kind": "measured"}', "measured times"),
    "checkpoint": (_npz(meta=np.zeros(2, np.uint8), a=np.zeros(3)), "a checkpoint"),
    "arrays": (_npz(x=np.zeros(2)), "an .npz file"),
    "keras": (_zip("config.json", "metadata.json", "model.weights.h5"), "a Keras model"),
    "zip": (_zip("a.txt"), "a zip file"),
    "hdf5": (b"\x89HDF\r\n\x1a\nmore", "HDF5"),
    "table": (b"participant_id\tage\nsub-01\t60\n", "a table with the columns participant_id, age"),
}


@pytest.mark.parametrize("content, words", KINDS.values(), ids=KINDS)
def test_a_file_is_known_by_its_content(content: bytes, words: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "any.name"
    path.write_bytes(content)
    assert words in file_kind(path)
    assert in_place_of(path, "a thing") == f"{path} is {file_kind(path)} and not a thing"


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"[1]", b'{"kind": "pl', b'{"kind": []}', b"\xff\xfe", b"PK\x03\x04cut", b"{" * 100_000]
)
def test_a_file_of_no_known_kind_is_only_not_what_is_wanted(content: bytes, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "any.name"
    path.write_bytes(content)
    assert file_kind(path) == "" and in_place_of(path, "a plan file") == f"{path} is not a plan file"


def test_what_is_no_file_has_no_kind(tmp_path: pathlib.Path) -> None:
    assert file_kind(tmp_path) == "" == file_kind(tmp_path / "gone")
