"""The header of a NIfTI file: how its voxels are stored, with what had to be corrected, or the reason why they cannot be read."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import pathlib
import struct
import threading
from collections.abc import Iterator
from typing import Any

import nibabel
import numpy as np
from nibabel.imageglobals import logger as nibabel_logger
from nibabel.nifti1 import data_type_codes, xform_codes

from hetero_mtf.data.array import Array
from hetero_mtf.errors import DataError
from hetero_mtf.file_kind import content_kind

AGAIN = "copy or convert it again"
_CLASSES = {348: nibabel.Nifti1Header, 540: nibabel.Nifti2Header}
_KNOWN_CODES = xform_codes.value_set()
_SCANNER = 1  # the code of a position in the scanner


@dataclasses.dataclass(frozen=True)
class NiftiHeader:
    """What a header says of the voxels.

    Parameters
    ----------
    fields : nibabel's header, with the corrections.
    pixdim : (8,) array, qfac and the voxel sizes before any correction.
    shape : voxels along each dimension.
    dtype : of a stored value.
    start_byte : where the first voxel is.
    slope, intercept : a voxel is slope x its stored value + intercept.
    notes : what had to be corrected.
    """

    fields: Any
    pixdim: Array
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    start_byte: int
    slope: float
    intercept: float
    notes: tuple[str, ...]

    @property
    def end_byte(self) -> int:
        """Return where the voxels of all volumes end."""
        return self.start_byte + math.prod(self.shape) * self.dtype.itemsize


def parse_header(path: pathlib.Path, head: bytes, room: int) -> NiftiHeader | None:
    """Return what a file's header says, None where the file does not begin with the length of one.

    Parameters
    ----------
    path : the file, for messages.
    head : its first bytes, unpacked, as many as it has up to 544 at least.
    room : bytes that the unpacked file may have.

    Raises
    ------
    DataError
        If the header is cut off, contradicts itself, or says that there are no plain real numbers.
    """
    length, order = _length_and_order(head)
    if length not in _CLASSES:
        return None
    if len(head) < length:
        raise DataError(f"{path} is cut off within its header, after {len(head)} of {length} bytes", AGAIN)
    fields = _CLASSES[length](head[:length], order, check=False)
    pixdim = np.array(fields["pixdim"], np.float64)
    notes: list[str] = []
    shape = _shape(path, fields, notes)
    dtype = _dtype(path, fields, notes)
    start_byte = _start_byte(path, fields, head, room, notes)
    slope, intercept = _scaling(path, fields, notes)
    for name in ("sform_code", "qform_code"):
        if (code := int(fields[name])) > 0 and code not in _KNOWN_CODES:  # as for NIfTI's own library, every code above 0 is a position
            fields[name] = _SCANNER
            notes.append(f"{name} {code} is none of NIfTI: taken as {_SCANNER}")
    with _listening() as corrections:
        fields.check_fix()
    return NiftiHeader(fields, pixdim, shape, dtype, start_byte, slope, intercept, (*notes, *corrections))


def _length_and_order(head: bytes) -> tuple[int, str]:
    """Return the length that a header states in its first bytes, and its byte order; 0 where it is none of NIfTI."""
    for order in "<>" if len(head) >= 4 else "":
        length = struct.unpack_from(f"{order}i", head)[0]
        if length in _CLASSES:
            return length, order
    return 0, ""


def _shape(path: pathlib.Path, fields: Any, notes: list[str]) -> tuple[int, ...]:
    count = int(fields["dim"][0])
    if not 1 <= count <= 7:
        raise DataError(f"{path} has {count} dimensions in its header (dim[0]), and NIfTI has 1 to 7", AGAIN)
    for axis in range(4, count + 1):
        if fields["dim"][axis] == 0:  # unset, which NIfTI's own library takes as 1 too
            fields["dim"][axis] = 1
            notes.append(f"dim[{axis}] of the header is 0: taken as 1")
    shape = tuple(int(size) for size in fields["dim"][1 : count + 1])
    if min(shape) < 1:
        raise DataError(f"{path} has the shape {by(shape)}, without voxels", AGAIN)
    return shape


def _dtype(path: pathlib.Path, fields: Any, notes: list[str]) -> np.dtype[Any]:
    code = int(fields["datatype"])
    dtype = data_type_codes.dtype[code] if code in data_type_codes.value_set() else np.dtype("V0")
    if not dtype.itemsize:
        raise DataError(f"{path} holds values of the datatype code {code}, which are not read", "convert it to int16 or float32")
    if dtype.kind not in "biuf":
        what = {"c": "complex numbers", "V": "colours, or other records,"}.get(dtype.kind, f"values of type {dtype}")
        raise DataError(f"{path} holds {what} and not one real number a voxel", "convert it to a grey volume")
    if (bits := int(fields["bitpix"])) != 8 * dtype.itemsize:
        notes.append(f"bitpix of the header is {bits}, and {dtype} has {8 * dtype.itemsize}: {dtype} taken")
    return np.dtype(dtype).newbyteorder(fields.endianness)


def _start_byte(path: pathlib.Path, fields: Any, head: bytes, room: int, notes: list[str]) -> int:
    """Return where voxels begin; a file of one piece is needed, which its magic says, or else its offset."""
    least, offset = int(fields.single_vox_offset), float(fields["vox_offset"])
    magic = fields["magic"].item()
    if magic != fields.single_magic and not (magic == fields.pair_magic and offset >= least and len(head) > least):
        kind = content_kind(head)
        what = f"is {kind.text}" if kind.text else f"has the magic {magic!r} in its header where NIfTI has {fields.single_magic!r}"
        raise DataError(f"{path} {what}", f"{kind.remedy or AGAIN}")
    if magic == fields.pair_magic:
        notes.append(f"magic of the header is {magic.decode()}, of a pair of files: voxels taken from this one, where it says")
    if not offset.is_integer():
        raise DataError(f"{path} has voxels from byte {offset:g} on by its header (vox_offset), no whole number", AGAIN)
    if offset > room:
        raise DataError(f"{path} has voxels from byte {offset:.0f} on by its header (vox_offset), beyond its end", AGAIN)
    if offset < least:  # "equivalent to 352", says NIfTI's definition; read from byte 0, the header would be voxels
        notes.append(f"vox_offset of the header is {offset:g}: taken as {least}")
        fields["vox_offset"] = least
    return max(int(offset), least)


def _scaling(path: pathlib.Path, fields: Any, notes: list[str]) -> tuple[float, float]:
    slope, intercept = float(fields["scl_slope"]), float(fields["scl_inter"])
    if math.isinf(slope):
        notes.append(f"scl_slope of the header is {slope:g}: values taken as they are stored")
    if slope == 0 or not math.isfinite(slope):  # NaN and 0 stand for none
        return 1.0, 0.0
    if not math.isfinite(intercept):
        wrong = f"{path} is not a sound NIfTI file: its intercept (scl_inter) is {intercept:g}, with the slope (scl_slope) {slope:g}"
        raise DataError(wrong, "set scl_inter to 0 in its header, or convert it again")
    return slope, intercept


class _Listener(logging.Filter):
    """Collects what nibabel logs of a header while this library reads it, for the notes instead of the log."""

    def __init__(self) -> None:
        super().__init__()
        self.here = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record goes into the log."""
        heard: list[str] | None = getattr(self.here, "heard", None)
        if heard is None:
            return True
        if record.levelno >= logging.WARNING:
            heard.append(f"header corrected: {record.getMessage()}")
        return False


_LISTENER = _Listener()


@contextlib.contextmanager
def _listening() -> Iterator[list[str]]:
    """Yield the list that this thread's messages of nibabel go to within the block."""
    nibabel_logger.addFilter(_LISTENER)
    _LISTENER.here.heard = heard = list[str]()
    try:
        yield heard
    finally:
        _LISTENER.here.heard = None


def by(values: Any) -> str:
    """Return numbers as text, such as "8 x 9 x 10"."""
    return " x ".join(f"{value:g}" for value in values) or "nothing"
