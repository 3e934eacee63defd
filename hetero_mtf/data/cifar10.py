"""CIFAR-10: six files in a folder, in their python or their binary form."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import numpy as np

from hetero_mtf.data.array import Array
from hetero_mtf.data.dataset import Dataset
from hetero_mtf.data.plain_pickle import read_plain_pickle
from hetero_mtf.errors import DataError

STEMS = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
FOLDERS = {"": "cifar-10-batches-py", ".bin": "cifar-10-batches-bin"}
PIXELS = 3 * 32 * 32
CLASSES = 10
REMEDY = "fetch the file again"
_ImagesAndLabels = tuple[Array, Array]


def load_cifar10(folder: str, dtype: str) -> Dataset:
    """Return the CIFAR-10 images in [0, 1] that lie in `folder`.

    Parameters
    ----------
    folder : holds data_batch_1 to data_batch_5 and test_batch (python form), or the same with .bin (binary form), itself or in
        the sub-folder that the archive makes.
    dtype : "float32" or "float64", of the images.

    Returns
    -------
    Dataset with images of shape (32, 32, 3) and 10 classes.

    Raises
    ------
    DataError
        If files are missing (all are named), truncated, or not of the form in their name.
    """
    place, ending = _find(pathlib.Path(folder))
    read: Callable[[pathlib.Path], _ImagesAndLabels] = _read_binary if ending else _read_python
    batches = [read(place / f"{stem}{ending}") for stem in STEMS]
    uneven = [f"{stem}{ending} has {len(y)}" for stem, (_, y) in zip(STEMS[:-1], batches) if len(y) != len(batches[0][1])]
    if uneven:
        first = f"{STEMS[0]}{ending} has {len(batches[0][1])} images"
        raise DataError(f"the training files in {place} differ in length: {first}, {', '.join(uneven)}", "fetch the shorter ones again")
    x_train, y_train = (np.concatenate(part) for part in zip(*batches[:-1]))
    x_test, y_test = batches[-1]
    return Dataset(f"cifar10:{folder}", _images(x_train, dtype), y_train, _images(x_test, dtype), y_test, CLASSES)


def cifar10_files(folder: str) -> tuple[pathlib.Path, ...]:
    """Return the files of CIFAR-10 that are in a folder or its sub-folder, in either form.

    Parameters
    ----------
    folder : as for `load_cifar10`.
    """
    place = pathlib.Path(folder)
    paths = (at / f"{stem}{ending}" for ending, inner in FOLDERS.items() for at in (place, place / inner) for stem in STEMS)
    return tuple(path for path in paths if path.is_file())


def _images(rows: Array, dtype: str) -> Array:
    planes = rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.divide(planes, 255, dtype=dtype, order="C")


def _find(folder: pathlib.Path) -> tuple[pathlib.Path, str]:
    if not folder.is_dir():
        raise DataError(f"cifar10:{folder} is not a folder", f"name the one that holds {STEMS[0]} or {STEMS[0]}.bin and its five fellows")
    places = [(place, ending) for ending, inner in FOLDERS.items() for place in (folder, folder / inner)]
    lacking = {(place, ending): [f"{s}{ending}" for s in STEMS if not (place / f"{s}{ending}").is_file()] for place, ending in places}
    (place, ending), missing = min(lacking.items(), key=lambda item: len(item[1]))
    if missing:
        raise DataError(f"{place} lacks {', '.join(missing)}", "put the missing CIFAR-10 files there")
    return place, ending


def _read_binary(path: pathlib.Path) -> _ImagesAndLabels:
    try:
        body = np.frombuffer(path.read_bytes(), np.uint8)
    except OSError as fault:
        raise DataError(f"cannot read {path}: {fault.strerror or fault}", "check the path") from fault
    if not len(body) or len(body) % (1 + PIXELS):
        raise DataError(f"{path} is truncated: expected a multiple of {1 + PIXELS} bytes, found {len(body)}", REMEDY)
    rows = body.reshape(-1, 1 + PIXELS)
    return rows[:, 1:], _labels(rows[:, 0], path)


def _read_python(path: pathlib.Path) -> _ImagesAndLabels:
    document = read_plain_pickle(path)
    entries = {_text(key): value for key, value in document.items()} if isinstance(document, dict) else {}
    missing = [name for name in ("data", "labels") if name not in entries]
    if missing:
        raise DataError(
            f"{path} is not a CIFAR-10 batch: expected a dict with data and labels, found no {' and no '.join(missing)}", REMEDY
        )
    data, labels = entries["data"], _label_array(entries["labels"], path)
    form = f"{data.dtype} {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape != (len(labels), PIXELS) or not len(labels):
        raise DataError(f"{path} has data of the wrong form: expected uint8 ({len(labels) or 10_000}, {PIXELS}), found {form}", REMEDY)
    return data, _labels(labels, path)


def _text(key: object) -> object:
    return key.decode("latin-1") if isinstance(key, bytes) else key


def _label_array(labels: object, path: pathlib.Path) -> Array:
    try:
        array = np.asarray(labels)
    except ValueError:
        array = np.zeros(0, object)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(
            f"{path} has labels of the wrong form: expected a list of whole numbers, found {type(labels).__name__}", REMEDY
        )
    return array


def _labels(labels: Array, path: pathlib.Path) -> Array:
    if labels.min() < 0 or labels.max() >= CLASSES:
        raise DataError(f"{path} has labels from {labels.min()} to {labels.max()}: expected 0 to {CLASSES - 1}", REMEDY)
    return labels.astype("int64")
