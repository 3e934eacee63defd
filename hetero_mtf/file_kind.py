"""What kind of file a path names, for the message about a file that was given in the place of another."""

from __future__ import annotations

import json
import os
import pathlib
import zipfile

CHECKPOINT = "a checkpoint of hetero-mtf train --save"
ARRAYS = "an .npz file of arrays"
PROFILE = "a profile of hetero-mtf calibrate"
MAX_JSON_BYTES = 256 * 2**20  # of a file that is read as JSON
_DOCUMENTS = {
    "plan": "a plan of hetero-mtf plan",
    "profile": PROFILE,
    "measured": "the measured times of hetero-mtf train",
    "data": "the description of the volumes beside a checkpoint",
    "split": "a split of hetero-mtf train --split",
    "scores": "the scores of hetero-mtf evaluate --json",
}
_STARTS = {
    b"\x89HDF": "an HDF5 file (.h5)",
    b"\x1f\x8b": "a gzip file",
    b"\x89PNG": "a picture",
    b"\x93NUMPY": "a single NumPy array (.npy)",
}


def file_kind(path: str | os.PathLike[str]) -> str:
    """Return what a file is, such as "a plan of hetero-mtf plan"; "" where that is not known. Nothing in the file is executed.

    Parameters
    ----------
    path : path of the file; where it cannot be read its kind is not known.
    """
    try:
        return _kind(pathlib.Path(path))
    except (OSError, ValueError, RecursionError, zipfile.BadZipFile, NotImplementedError):
        return ""


def in_place_of(path: str | os.PathLike[str], wanted: str) -> str:
    """Return the clause that a file is of another kind than the one that is wanted, with what it is where that is known.

    Parameters
    ----------
    path : path of the file.
    wanted : what it must be, such as "a checkpoint".
    """
    kind = file_kind(path)
    return f"{os.fspath(path)} is {f'{kind} and ' if kind else ''}not {wanted}"


def _kind(path: pathlib.Path) -> str:
    if not path.is_file():
        return ""
    with open(path, "rb") as file:
        start = file.read(8)
    if start.startswith(b"PK"):
        return _archive_kind(path)
    known = next((text for magic, text in _STARTS.items() if start.startswith(magic)), "")
    if known or path.stat().st_size > MAX_JSON_BYTES:
        return known
    return _text_kind(path)


def _archive_kind(path: pathlib.Path) -> str:
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
    if {"config.json", "metadata.json"} <= names:
        return "a Keras model (.keras)"
    if names and all(name.endswith(".npy") for name in names):
        return CHECKPOINT if "meta.npy" in names else ARRAYS
    return "a zip file"


def _text_kind(path: pathlib.Path) -> str:
    text = path.read_text(encoding="utf-8")
    if not text.lstrip().startswith("{"):
        columns = text.partition("\n")[0].split("\t")
        return f"a table with the columns {', '.join(columns[:4])}" if len(columns) > 1 else ""
    document = json.loads(text)
    return _DOCUMENTS.get(str(document.get("kind")), "")
