"""Arrays from one .npz file."""

from __future__ import annotations

import pathlib
import zipfile
import zlib
from typing import Any

import numpy as np

from hetero_mtf.data.array import Array, as_numbers, check_finite
from hetero_mtf.data.dataset import Dataset, count_classes, hold_out
from hetero_mtf.errors import DataError
from hetero_mtf.file_kind import ARRAYS, file_kind, in_place_of

NAMES = ("x_train", "y_train", "x_test", "y_test")
VALIDATION = ("x_validation", "y_validation")
REMEDY = "write it again with numpy.savez(file, x_train=..., y_train=..., x_test=..., y_test=...)"


def load_npz(file: str, dtype: str) -> Dataset:
    """Return the arrays in an .npz file as a data set, values as they are.

    Parameters
    ----------
    file : holds x_train and y_train, or x and y; with x_test and y_test, or else a seeded fifth is held out for testing; and where it has
        samples to validate on, x_validation and y_validation.
    dtype : "float32" or "float64", what x is cast to.

    Raises
    ------
    DataError
        If the file is missing, truncated, lacks arrays (all are named), or holds pickled objects, which are never loaded.
    """
    path = pathlib.Path(file)
    arrays = _read(path)
    for name, array in arrays.items():
        if not array.ndim or not len(array):
            raise DataError(f"{path} has {name} of shape {array.shape}: expected (samples, ...), at least one sample", REMEDY)
        if name.startswith("x") and array.ndim < 2:
            raise DataError(
                f"{path} has {name} of shape {array.shape}: expected (samples, features) or (samples, ..., channels)", REMEDY
            )
        check_finite(array, f"{name} in {path}")
    parts = arrays if "x_test" in arrays else {**arrays, **_held_out(arrays, path)}
    cast = {name: array.astype(dtype) if name.startswith("x") else array for name, array in parts.items()}
    return Dataset(name=f"npz:{file}", classes=count_classes(*(array for name, array in cast.items() if name.startswith("y"))), **cast)


def _held_out(arrays: dict[str, Array], path: pathlib.Path) -> dict[str, Array]:
    x, y = arrays["x_train"], arrays["y_train"]
    if len(x) != len(y) or len(x) < 2:
        raise DataError(f"{path} has {len(x)} samples and {len(y)} labels: expected as many of both, two at least", REMEDY)
    train, test = hold_out(y)
    return {"x_train": x[train], "y_train": y[train], "x_test": x[test], "y_test": y[test]}


def _read(path: pathlib.Path) -> dict[str, Array]:
    try:
        with path.open("rb") as handle:
            return _arrays(np.load(handle, allow_pickle=False), path)
    except DataError:
        raise
    except FileNotFoundError as fault:
        raise DataError(f"{path} does not exist", "check the path behind npz:") from fault
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError) as fault:
        if file_kind(path) not in ("", ARRAYS):
            raise DataError(f"{in_place_of(path, 'an .npz file of plain numbers')}", REMEDY) from fault
        raise DataError(f"{path} is not a complete .npz file of plain numbers ({fault})", REMEDY) from fault


def _arrays(file: Any, path: pathlib.Path) -> dict[str, Array]:
    if isinstance(file, np.ndarray):
        raise DataError(f"{path} holds one array without a name: expected an .npz file", REMEDY)
    with file:
        return {name: as_numbers(file[source], f"{name} in {path}") for name, source in _sources(file, path).items()}


def _sources(file: Any, path: pathlib.Path) -> dict[str, str]:
    present = set(file.files)
    if {"x", "y"} <= present and not present & {"x_train", "y_train"}:
        sources = {"x_train": "x", "y_train": "y"}
    else:
        sources = {"x_train": "x_train", "y_train": "y_train"}
    if present & {"x_test", "y_test"}:
        sources |= {"x_test": "x_test", "y_test": "y_test"}
    if present & set(VALIDATION):
        sources |= {name: name for name in VALIDATION}
    missing = [name for name in sources.values() if name not in present]
    if missing:
        raise DataError(f"{path} lacks {', '.join(missing)}: found {', '.join(sorted(present)) or 'no array'}", REMEDY)
    return sources
