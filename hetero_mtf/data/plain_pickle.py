"""Reads a pickle that holds plain data only, without running code from it."""

from __future__ import annotations

import pathlib
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from hetero_mtf.data.array import Array
from hetero_mtf.errors import DataError


def read_plain_pickle(path: pathlib.Path) -> Any:
    """Return what a pickle holds if that is only arrays, bytes, text, numbers, lists and dicts.

    Parameters
    ----------
    path : file; may have been written by Python 2, whose text comes back as bytes.

    Raises
    ------
    DataError
        If the file is unreadable, truncated, or names anything else - which is then not loaded.
    """
    try:
        with path.open("rb") as file:
            return _PlainUnpickler(file, encoding="bytes").load()
    except DataError as fault:
        raise DataError(f"{path} {fault}") from fault
    except OSError as fault:
        raise DataError(f"cannot read {path}: {fault.strerror or fault}", "check the path") from fault
    except Exception as fault:  # a damaged pickle raises whatever its bytes lead to
        raise DataError(f"{path} is not a complete pickle file ({type(fault).__name__}: {fault})", "fetch the file again") from fault


def _empty_array(kind: object, shape: tuple[int, ...], code: object) -> Array:
    if kind is not np.ndarray or shape != (0,):
        raise ValueError(f"an array that starts with shape {shape}")
    return np.empty(0, np.int8)


def _buffer_array(buffer: bytes, dtype: np.dtype[Any], shape: tuple[int, ...], order: str) -> Array:
    return np.frombuffer(buffer, dtype).reshape(shape, order="F" if order == "F" else "C")


def _latin_bytes(text: str, encoding: object) -> bytes:
    return text.encode("latin-1")


_ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _latin_bytes,
    **{(f"numpy.{folder}.multiarray", "_reconstruct"): _empty_array for folder in ("core", "_core")},
    **{(f"numpy.{folder}.numeric", "_frombuffer"): _buffer_array for folder in ("core", "_core")},
}


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        try:
            return _ALLOWED[module_name, global_name]
        except KeyError:
            raise DataError(f"asks for {module_name}.{global_name}, which plain data does not need", "do not trust this file") from None
