"""Which versions of TensorFlow and Keras this package is tested with: older ones are refused, newer ones are named once."""

from __future__ import annotations

import functools
import re
import warnings

import keras
import tensorflow as tf

from hetero_mtf.errors import UnsupportedError

OLDEST = {"TensorFlow": (2, 16), "Keras": (3, 8)}
NEWEST_TESTED = {"TensorFlow": (2, 21), "Keras": (3, 15)}


class UntestedVersionWarning(UserWarning):
    """A version of TensorFlow or Keras is newer than those that this package was tested with."""


@functools.cache
def check_frameworks() -> None:
    """Check the versions of the TensorFlow and Keras that are installed, once a process.

    Raises
    ------
    UnsupportedError
        If one is older than the oldest that this package works with.
    """
    # the modules' own numbers, not those of the installed distributions: keras-nightly and tensorflow-cpu install the same modules
    check_versions({"TensorFlow": tf.__version__, "Keras": keras.__version__})


def check_versions(versions: dict[str, str]) -> None:
    """Refuse versions that are too old, and warn of versions that are newer than the tested ones.

    Parameters
    ----------
    versions : "TensorFlow" and "Keras" -> version, such as "3.15.1" or "3.16.0.dev2026110103".

    Raises
    ------
    UnsupportedError
        If one is older than `OLDEST`.
    """
    numbers = {name: _major_minor(version) for name, version in versions.items()}
    old = [name for name in versions if numbers[name] < OLDEST[name]]
    if old:
        have = " and ".join(f"{name} {versions[name]} is older than {_text(OLDEST[name])}" for name in old)
        requirements = " ".join(f'"{name.lower()}>={_text(OLDEST[name])}"' for name in old)
        raise UnsupportedError(f"{have}, the oldest that hetero_mtf works with", f"run pip install {requirements}")
    new = [name for name in versions if numbers[name] > NEWEST_TESTED[name]]
    if new:
        have = " and ".join(f"{name} {versions[name]} is newer than {_text(NEWEST_TESTED[name])}" for name in new)
        text = f"{have}, the newest that hetero_mtf was tested with; results may differ from one device's, so compare the first losses"
        warnings.warn(UntestedVersionWarning(text), stacklevel=2)


def _major_minor(version: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _text(number: tuple[int, int]) -> str:
    return ".".join(map(str, number))
