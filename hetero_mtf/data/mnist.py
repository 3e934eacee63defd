"""MNIST, and every data set in the same form: four IDX files in a folder, plain or gzipped."""

from __future__ import annotations

import gzip
import math
import pathlib
import struct
import zlib
from collections.abc import Sequence
from typing import BinaryIO, cast

import numpy as np

from hetero_mtf.data.array import Array
from hetero_mtf.data.dataset import Dataset, count_classes
from hetero_mtf.errors import DataError

STEMS = ("train-images", "train-labels", "t10k-images", "t10k-labels")
DIMENSIONS = {"images": 3, "labels": 1}
UNSIGNED_BYTE = 0x08
PIECE_BYTES = 2**22
REMEDY = "fetch the file again"


def load_mnist(folder: str, dtype: str) -> Dataset:
    """Return the MNIST images in [0, 1] that lie in `folder`.

    Parameters
    ----------
    folder : holds train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte;
        each may end in .gz, and may have a dot in place of its second hyphen.
    dtype : "float32" or "float64", of the images.

    Returns
    -------
    Dataset with images of shape (height, width, 1).

    Raises
    ------
    DataError
        If files are missing (all are named), truncated, or not of the form in their name.
    """
    paths = _find(pathlib.Path(folder))
    arrays = {stem: read_idx(paths[stem], DIMENSIONS[stem.split("-")[1]]) for stem in STEMS}
    for part in ("train", "t10k"):
        images, labels = len(arrays[f"{part}-images"]), len(arrays[f"{part}-labels"])
        if images != labels:
            raise DataError(
                f"{paths[f'{part}-images']} has {images} images and {paths[f'{part}-labels'].name} {labels} labels", REMEDY
            )
    x_train, x_test = (_scaled(arrays[f"{part}-images"], dtype) for part in ("train", "t10k"))
    y_train, y_test = (arrays[f"{part}-labels"].astype("int64") for part in ("train", "t10k"))
    return Dataset(f"mnist:{folder}", x_train, y_train, x_test, y_test, classes=count_classes(y_train, y_test))


def mnist_files(folder: str) -> tuple[pathlib.Path, ...]:
    """Return the files of MNIST that are in a folder, under each name that `load_mnist` accepts.

    Parameters
    ----------
    folder : as for `load_mnist`.
    """
    paths = (pathlib.Path(folder) / name for stem in STEMS for name in _names(stem))
    return tuple(path for path in paths if path.is_file())


def _scaled(images: Array, dtype: str) -> Array:
    return np.divide(images[..., None], 255, dtype=dtype)


def _names(stem: str) -> Sequence[str]:
    ending = f"idx{DIMENSIONS[stem.split('-')[1]]}-ubyte"
    return [f"{stem}{joint}{ending}{packed}" for joint in "-." for packed in ("", ".gz")]


def _find(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    if not folder.is_dir():
        raise DataError(f"mnist:{folder} is not a folder", f"name the one that holds {_names(STEMS[0])[0]} and its three fellows")
    paths = {stem: next((folder / name for name in _names(stem) if (folder / name).is_file()), None) for stem in STEMS}
    missing = [_names(stem)[0] for stem, path in paths.items() if path is None]
    if missing:
        raise DataError(f"{folder} lacks {', '.join(missing)} (or the same with .gz)", "put the missing MNIST files there")
    return cast("dict[str, pathlib.Path]", paths)


def read_idx(path: pathlib.Path, dimensions: int) -> Array:
    """Return the bytes in an IDX file as an array.

    Parameters
    ----------
    path : file, gzipped if it ends in .gz.
    dimensions : how many dimensions the array must have.

    Returns
    -------
    Array of uint8 with that many dimensions.

    Raises
    ------
    DataError
        If the magic number, the length or the gzip stream is wrong.
    """
    try:
        with cast("BinaryIO", gzip.open(path) if path.suffix == ".gz" else path.open("rb")) as file:
            return _read(file, path, dimensions)
    except (gzip.BadGzipFile, zlib.error, EOFError) as fault:
        raise DataError(f"{path} is not a complete gzip file ({fault})", REMEDY) from fault
    except OSError as fault:
        raise DataError(f"cannot read {path}: {fault.strerror or fault}", "check the path") from fault


def _read(file: BinaryIO, path: pathlib.Path, dimensions: int) -> Array:
    header = file.read(4 * (1 + dimensions))
    expected = UNSIGNED_BYTE << 8 | dimensions
    if len(header) < 4 * (1 + dimensions):
        raise DataError(f"{path} is truncated: expected a header of {4 * (1 + dimensions)} bytes, found {len(header)}", REMEDY)
    magic, *shape = struct.unpack(f">{1 + dimensions}I", header)
    if magic != expected:
        raise DataError(f"{path} is not the IDX file of its name: expected magic number {expected}, found {magic}", REMEDY)
    length = math.prod(shape)
    body = _at_most(file, length + 1)
    if len(body) != length or not length:
        length_text = f"more than {length}" if len(body) > length else str(len(body))
        raise DataError(
            f"{path} has the wrong length: its header says {shape}, expected {length} bytes after it, found {length_text}", REMEDY
        )
    return np.frombuffer(body, np.uint8).reshape(shape)


def _at_most(file: BinaryIO, limit: int) -> bytes:
    pieces = [b"piece"]
    room = limit
    while room and pieces[-1]:
        pieces.append(file.read(min(room, PIECE_BYTES)))  # a damaged header may give a huge length
        room -= len(pieces[-1])
    return b"".join(pieces[1:])
