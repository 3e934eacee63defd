"""Arrays in an .npz file, as `numpy.savez` writes them, whatever a write ends with."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from typing import BinaryIO

import numpy as np
from numpy.typing import ArrayLike

SUFFIX = ".npy"


def write_npz(file: BinaryIO, arrays: Mapping[str, ArrayLike]) -> None:
    """Write arrays to a zip archive that is not compressed, one member each.

    The `savez` of NumPy 1.26 leaves the archive open when the disk is full; on Python 3.10 and 3.11 that prints an exception with a
    traceback as the archive is collected. And it takes no array named `file`.

    Parameters
    ----------
    file : open for writing.
    arrays : name -> array of numbers or texts.

    Raises
    ------
    OSError
        If it cannot be written.
    ValueError
        If an array holds Python objects.
    """
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(name + SUFFIX, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
