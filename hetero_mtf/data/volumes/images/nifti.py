"""NIfTI files: their voxels as float32 and where these lie in the scanner, or the reason why not."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import io
import math
import os
import pathlib
import zlib
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from nibabel.volumeutils import apply_read_scaling

from hetero_mtf.data.array import Array
from hetero_mtf.data.volumes.images.header import AGAIN, NiftiHeader, by, parse_header
from hetero_mtf.data.volumes.images.orientation import affine_of
from hetero_mtf.errors import DataError
from hetero_mtf.file_kind import GZIP, NIFTI, absent, content_kind, known_kind

ENDINGS = (".nii", ".nii.gz")
MAX_VOXELS = 2**29  # of one volume, 800 voxels each way; no scanner gives more, damaged headers do
LARGEST_PACKING = 1100  # gzip packs at most 1032 bytes into one
CORRECT_PATH = "correct the path in the table"
CHOOSE = "take one of them with --volume 0 (volume=0), or make their mean"  # for scans, which alone have that option
_HEAD_BYTES = 1024  # header and what follows it; not more, what else is damaged may not be asked for
_PIECE_BYTES = 2**22
_GZIP_MAGIC = b"\x1f\x8b"


@dataclasses.dataclass(frozen=True)
class Volume:
    """A volume and where it lies.

    Parameters
    ----------
    values : (D, H, W) array of float32.
    affine : (4, 4) array of float64: voxel indices to mm in the scanner, x to the right, y to the front, z up.
    notes : what had to be done or assumed.
    content : digest of the values, "" where it was not taken.
    beyond : number of values that are infinite only because float32 ends before them.
    """

    values: Array
    affine: Array
    notes: tuple[str, ...] = ()
    content: str = ""
    beyond: int = 0


def read_nifti(path: pathlib.Path, volume: int | None = None, several: str = CHOOSE) -> Volume:
    """Return the voxels of a file, scaled as in its header; NaN and infinity are left in.

    Parameters
    ----------
    path : a .nii or .nii.gz file.
    volume : which volume to take of several, from 0; None refuses several.
    several : what to do about several volumes, for the message.

    Raises
    ------
    DataError
        If the file is missing, cut off, damaged, no NIfTI, of other than three dimensions, holds no plain real numbers, or gives
        no position of its voxels.
    """
    with _opened(path) as (file, header):
        number, notes = _selection(path, header.shape, volume, several)
        affine, assumptions = affine_of(path, header)
        values, beyond = _values(path, file, header, number)
    if beyond:
        assumptions.append(f"values beyond float32 in {beyond} voxel{'s' if beyond > 1 else ''}: taken as infinite")
    return Volume(values, affine, (*header.notes, *notes, *assumptions), beyond=beyond)


def read_grid(path: pathlib.Path) -> tuple[tuple[int, int, int], Array, Any]:
    """Return a file's grid without reading its voxels.

    Parameters
    ----------
    path : a .nii or .nii.gz file.

    Returns
    -------
    (3,) voxels, (4, 4) affine in mm, and nibabel's header, in which only forms that can be used have a code.

    Raises
    ------
    DataError
        As `read_nifti`.
    """
    with _opened(path, to_end=False) as (_, header):
        _selection(path, header.shape, 0, CHOOSE)
        affine, _ = affine_of(path, header)
        return cast("tuple[int, int, int]", header.shape[:3]), affine, header.fields


@contextlib.contextmanager
def _opened(path: pathlib.Path, to_end: bool = True) -> Iterator[tuple[io.BufferedIOBase, NiftiHeader]]:
    """Yield a file, unpacked, and its header; a packed file is read to its end, where its checksum is."""
    _check_name(path)
    try:
        with open(path, "rb") as raw, contextlib.ExitStack() as stack:
            packed = raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
            raw.seek(0)
            file: io.BufferedIOBase = stack.enter_context(gzip.GzipFile(fileobj=raw)) if packed else raw
            yield file, _header(path, file, os.fstat(raw.fileno()).st_size, packed)
            while to_end and packed and file.read(_PIECE_BYTES):
                pass
    except DataError:
        raise
    except (FileNotFoundError, NotADirectoryError) as fault:
        raise DataError(absent(path, CORRECT_PATH)) from fault
    except EOFError as fault:
        raise DataError(f"{path} is cut off, its gzip stream has no end", AGAIN) from fault
    except (gzip.BadGzipFile, zlib.error) as fault:
        raise DataError(f"{path} is a damaged gzip file ({fault})", AGAIN) from fault
    except MemoryError as fault:
        raise DataError(f"{path} does not fit into memory", "make it smaller, or use a machine with more") from fault
    except OSError as fault:
        raise DataError(f"cannot read {path}: {fault.strerror or fault}", AGAIN) from fault
    except Exception as fault:  # nibabel's own errors have no common base
        raise DataError(f"{path} is not a sound NIfTI file ({_first_line(fault)})", AGAIN) from fault


def _check_name(path: pathlib.Path) -> None:
    if not path.name.lower().endswith(ENDINGS):
        kind = known_kind(path)
        what, remedy = f"is {kind.text} and not named .nii or .nii.gz", kind.remedy
        if not remedy:
            what, remedy = "is not named .nii or .nii.gz", "convert it to NIfTI, for instance with dcm2niix or mri_convert"
        raise DataError(f"{path} {what}", remedy)
    if path.exists() and not path.is_file():
        raise DataError(f"{path} is a {'folder' if path.is_dir() else 'device or pipe'}, not a file", CORRECT_PATH)


def _header(path: pathlib.Path, file: io.BufferedIOBase, size_bytes: int, packed: bool) -> NiftiHeader:
    """Return the header of an open file whose length and name agree with it."""
    if not size_bytes:
        raise DataError(f"{path} is empty", AGAIN)
    head = file.read(_HEAD_BYTES)
    room = size_bytes * (LARGEST_PACKING if packed else 1)
    header = parse_header(path, head, room)
    named_packed = path.name.lower().endswith(".gz")
    if header is None:
        raise _other_kind(path, head, packed)
    if packed and not named_packed:
        raise DataError(f"{path} is gzipped and named .nii", f"rename it to {path.name}.gz")
    if named_packed and not packed:
        raise DataError(f"{path} is not gzipped and named .gz", f"rename it to {path.name[:-3]}")
    if header.end_byte > room:
        raise _cut_off(path, header, f"the file has {size_bytes}{', packed' if packed else ''}")
    return header


def _other_kind(path: pathlib.Path, head: bytes, packed: bool) -> DataError:
    """Return the error of a file whose content does not begin as NIfTI does."""
    kind = known_kind(path)
    if not kind.text:  # such as a damaged zip file, of which the beginning tells
        kind = content_kind(head)
    if kind.text not in ("", GZIP):
        return DataError(f"{path} is {kind.text} and not {NIFTI}", f"{kind.remedy or CORRECT_PATH}")
    lacks_gzip = path.name.lower().endswith(".gz") and not packed
    expected = "a gzip file" if lacks_gzip else NIFTI
    return DataError(f"{path} is not {expected}, it begins{', unpacked,' if packed else ''} with {head[:4]!r}", AGAIN)


def _cut_off(path: pathlib.Path, header: NiftiHeader, there: str) -> DataError:
    expected = f"{by(header.shape)} of {header.dtype}, {header.end_byte} bytes"
    return DataError(f"{path} is cut off: its header says {expected}, and {there}", AGAIN)


def _selection(path: pathlib.Path, shape: tuple[int, ...], volume: int | None, several: str) -> tuple[int, list[str]]:
    """Return the number of the volume to take of a file, and notes."""
    later = shape[3:]
    if len(shape) < 3 or min(shape[:3]) < 2:
        raise DataError(f"{path} has the shape {by(shape)}, a slice and not a volume", "take the 3-D series")
    if math.prod(shape[:3]) > MAX_VOXELS:
        raise DataError(f"{path} has the shape {by(shape)}, more than {MAX_VOXELS} voxels a volume", AGAIN)
    if sum(size > 1 for size in later) > 1:
        wrong = f"{path} has the {len(shape)} dimensions {by(shape)}"
        raise DataError(wrong, "a scan has three, take one volume of it into a file of its own")
    count = math.prod(later)
    if count == 1:
        return 0, [f"dropped the dimensions of one beyond the third of {by(shape)}"] if later else []
    if volume is None:
        raise DataError(f"{path} holds {count} volumes ({by(shape)})", several)
    if volume >= count:
        raise DataError(f"{path} holds {count} volumes and volume {volume} was asked for", "they count from 0")
    return volume, [f"took volume {volume} of {count}"]


def _values(path: pathlib.Path, file: io.BufferedIOBase, header: NiftiHeader, number: int) -> tuple[Array, int]:
    """Return a volume as float32, and how many of its values are infinite by that."""
    shape = header.shape[:3]
    content = _bytes(path, file, header, math.prod(shape) * header.dtype.itemsize, number)
    stored = np.frombuffer(content, header.dtype).reshape(shape, order="F")
    with np.errstate(all="ignore"):
        scaled = apply_read_scaling(stored, header.slope, header.intercept)
        values = np.asarray(scaled, np.float32)
    if np.can_cast(scaled.dtype, np.float32):  # each value as it is
        return values, 0
    finite = np.isfinite(values)
    rounded, exact = (values, scaled) if finite.all() else (values[finite], scaled[finite])
    if rounded.size and rounded.min() == rounded.max() and exact.min() < exact.max():
        wrong = f"{path} has values from {exact.min()} to {exact.max()}, which float32 does not tell apart"
        raise DataError(wrong, "shift and scale them into 0 to 1")
    return values, int(np.count_nonzero(np.isfinite(stored[~finite])))


def _bytes(path: pathlib.Path, file: io.BufferedIOBase, header: NiftiHeader, size: int, number: int) -> bytearray:
    """Return the bytes of a volume."""
    start = header.start_byte + number * size
    content, filled = bytearray(size), 0
    file.seek(start)
    while filled < size and (count := file.readinto(memoryview(content)[filled : filled + _PIECE_BYTES])):
        filled += count
    if filled < size:
        raise _cut_off(path, header, f"unpacked the file has {file.tell()}")
    return content


def _first_line(fault: BaseException) -> str:
    return (str(fault).splitlines() or [type(fault).__name__])[0]
