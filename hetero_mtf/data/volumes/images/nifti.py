"""NIfTI files: their voxels as float32 and where these lie in the scanner, or the reason why not."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import logging
import math
import os
import pathlib
import struct
import threading
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import nibabel
import numpy as np
from nibabel.imageglobals import logger as nibabel_logger

from hetero_mtf.data.array import Array
from hetero_mtf.errors import DataError

ENDINGS = (".nii", ".nii.gz")
MAX_VOXELS = 2**29  # of one volume, 800 voxels each way; no scanner gives more, damaged headers do
LARGEST_PACKING = 1100  # gzip packs at most 1032 bytes into one
FORM_TOLERANCE_MM = 0.1
_HEADERS = {348: nibabel.Nifti1Image, 540: nibabel.Nifti2Image}
_MM = {"meter": 1000.0, "micron": 0.001}
_PIECE_BYTES = 2**22
_AGAIN = "copy or convert it again"


@dataclasses.dataclass(frozen=True)
class Volume:
    """A volume and where it lies.

    Parameters
    ----------
    values : (D, H, W) array of float32.
    affine : (4, 4) array of float64: voxel indices to mm in the scanner, x to the right, y to the front, z up.
    notes : what had to be done or assumed.
    content : digest of the values, "" where it was not taken.
    """

    values: Array
    affine: Array
    notes: tuple[str, ...] = ()
    content: str = ""


def read_nifti(path: pathlib.Path, volume: int | None = None) -> Volume:
    """Return the voxels of a file, scaled as in its header; NaN and infinity are left in.

    Parameters
    ----------
    path : a .nii or .nii.gz file.
    volume : which volume to take of several, from 0; None refuses several.

    Raises
    ------
    DataError
        If the file is missing, cut off, damaged, no NIfTI, of other than three dimensions, holds no plain real numbers, or gives
        no position of its voxels.
    """
    with _opened(path) as (image, corrections):
        header = image.header
        taken, notes = _selection(path, header, volume)
        affine, assumptions = _affine(path, header)
        with np.errstate(all="ignore"):
            values = np.asarray(image.dataobj[taken], np.float32)
    return Volume(values, affine, (*corrections, *notes, *assumptions))


def read_grid(path: pathlib.Path) -> tuple[tuple[int, int, int], Array, Any]:
    """Return a file's grid without reading its voxels.

    Parameters
    ----------
    path : a .nii or .nii.gz file.

    Returns
    -------
    (3,) voxels, (4, 4) affine in mm, and nibabel's header.

    Raises
    ------
    DataError
        As `read_nifti`.
    """
    with _opened(path, to_end=False) as (image, _):
        _selection(path, image.header, 0)
        affine, _ = _affine(path, image.header)
        first = cast("tuple[int, int, int]", tuple(map(int, image.header.get_data_shape()[:3])))
        return first, affine, image.header.copy()


@contextlib.contextmanager
def _opened(path: pathlib.Path, to_end: bool = True) -> Iterator[tuple[Any, list[str]]]:
    """Yield nibabel's image of a file and its corrections of the header; a packed file is read to its end, where its checksum is."""
    _check_name(path)
    packed = path.name.lower().endswith(".gz")
    try:
        with open(path, "rb") as raw, _listening() as corrections, contextlib.ExitStack() as stack:
            file = cast("BinaryIO", stack.enter_context(gzip.GzipFile(fileobj=raw)) if packed else raw)
            image = _image(path, file, os.fstat(raw.fileno()).st_size, packed)
            yield image, corrections
            while to_end and packed and file.read(_PIECE_BYTES):
                pass
    except DataError:
        raise
    except FileNotFoundError as fault:
        raise DataError(f"{path} does not exist; correct the path in the table") from fault
    except EOFError as fault:
        raise DataError(f"{path} is cut off, its gzip stream has no end; {_AGAIN}") from fault
    except (gzip.BadGzipFile, zlib.error) as fault:
        raise DataError(f"{path} is a damaged gzip file ({fault}); {_AGAIN}") from fault
    except MemoryError as fault:
        raise DataError(f"{path} does not fit into memory; make it smaller, or use a machine with more") from fault
    except OSError as fault:
        raise DataError(f"cannot read {path}: {fault.strerror or fault}; {_AGAIN}") from fault
    except Exception as fault:  # nibabel's own errors have no common base
        raise DataError(f"{path} is not a sound NIfTI file ({_first_line(fault)}); {_AGAIN}") from fault


def _check_name(path: pathlib.Path) -> None:
    if not path.name.lower().endswith(ENDINGS):
        raise DataError(f"{path} is not named .nii or .nii.gz; convert it to NIfTI, for instance with dcm2niix or mri_convert")
    if path.exists() and not path.is_file():
        raise DataError(f"{path} is a {'folder' if path.is_dir() else 'device or pipe'}, not a file; correct the path in the table")


def _image(path: pathlib.Path, file: BinaryIO, size_bytes: int, packed: bool) -> Any:
    """Return nibabel's image over an open file whose length agrees with its header."""
    if not size_bytes:
        raise DataError(f"{path} is empty; {_AGAIN}")
    kind = _kind(path, file, packed)
    file.seek(0)
    written = kind.header_class.from_fileobj(file, check=False)
    if int(written["sform_code"]) < 1 and not (np.abs(written["pixdim"][1:4]) > 0).all():
        raise DataError(f"{path} has voxels of {_by(written['pixdim'][1:4])} mm; correct the voxel sizes in its header")
    file.seek(0)
    image = kind.from_file_map({"image": nibabel.FileHolder(fileobj=file)}, mmap=False)
    shape, dtype = image.header.get_data_shape(), image.header.get_data_dtype()
    if not shape or min(shape) < 1:
        raise DataError(f"{path} has the shape {_by(shape)}, without voxels; {_AGAIN}")
    if dtype.kind not in "biuf":
        what = {"c": "complex numbers", "V": "colours, or other records,"}.get(dtype.kind, f"values of type {dtype}")
        raise DataError(f"{path} holds {what} and not one real number a voxel; convert it to a grey volume")
    needed = int(image.dataobj.offset) + math.prod(map(int, shape)) * dtype.itemsize
    room = size_bytes * (LARGEST_PACKING if packed else 1)
    if needed > room:
        is_there = f"the file has {size_bytes}{', packed' if packed else ''}"
        raise DataError(f"{path} is cut off: its header says {_by(shape)} of {dtype}, {needed} bytes, and {is_there}; {_AGAIN}")
    return image


def _kind(path: pathlib.Path, file: BinaryIO, packed: bool) -> Any:
    """Return nibabel's class for the header a file begins with."""
    start = file.read(4)
    if packed is False and start[:2] == b"\x1f\x8b":
        raise DataError(f"{path} is gzipped and named .nii; rename it to {path.name}.gz")
    for length in struct.unpack("<i", start) + struct.unpack(">i", start) if len(start) == 4 else ():
        if length in _HEADERS:
            return _HEADERS[length]
    raise DataError(f"{path} is not a NIfTI file, it begins with {start!r}; {_AGAIN}")


def _selection(path: pathlib.Path, header: Any, volume: int | None) -> tuple[tuple[Any, ...], list[str]]:
    """Return what to take of a file's array so that three dimensions are left, and notes."""
    shape = tuple(map(int, header.get_data_shape()))
    later = shape[3:]
    if len(shape) < 3 or min(shape[:3]) < 2:
        raise DataError(f"{path} has the shape {_by(shape)}, a slice and not a volume; take the 3-D series")
    if math.prod(shape[:3]) > MAX_VOXELS:
        raise DataError(f"{path} has the shape {_by(shape)}, more than {MAX_VOXELS} voxels a volume; {_AGAIN}")
    if len(shape) > 4 and math.prod(later) > 1:
        raise DataError(f"{path} has the {len(shape)} dimensions {_by(shape)}; a scan has three, take one volume of it")
    count = math.prod(later)
    if count == 1:
        note = [f"dropped the dimensions of one beyond the third of {_by(shape)}"] if later else []
        return (slice(None),) * 3 + (0,) * len(later), note
    if volume is None:
        raise DataError(f"{path} holds {count} volumes ({_by(shape)}); take one of them with --volume 0 (volume=0), or make their mean")
    if volume >= count:
        raise DataError(f"{path} holds {count} volumes and volume {volume} was asked for; they count from 0")
    return (slice(None),) * 3 + (volume,), [f"took volume {volume} of {count}"]


def _affine(path: pathlib.Path, header: Any) -> tuple[Array, list[str]]:
    """Return where voxels lie, in mm, and what had to be assumed for it."""
    notes = []
    forms = {name: form for name, form in (("sform", header.get_sform(coded=True)), ("qform", _qform(header))) if form[1]}
    affine = np.array(header.get_best_affine(), np.float64)
    if not forms:
        notes.append("the header has no orientation (sform and qform codes are 0): taken as nibabel does, left and right may be swapped")
    elif len(forms) == 2:
        apart_mm = _apart_mm(forms["sform"][0], forms["qform"][0], header.get_data_shape()[:3])
        if apart_mm > FORM_TOLERANCE_MM:
            notes.append(f"sform and qform differ by up to {apart_mm:.3g} mm: sform taken")
    unit = _unit(header)
    if unit == "":
        notes.append("the header's unit is none of NIfTI: taken as mm")
    if unit in _MM:
        affine[:3] *= _MM[unit]
        notes.append(f"the header's unit is {unit}: turned into mm")
    _check_affine(path, affine)
    return affine, notes


def _unit(header: Any) -> str:
    try:
        return str(header.get_xyzt_units()[0])
    except KeyError:
        return ""


def _qform(header: Any) -> tuple[Any, int]:
    try:
        return cast("tuple[Any, int]", header.get_qform(coded=True))
    except ValueError:  # no quaternion of length one; with an sform it is not needed
        if int(header["sform_code"]) < 1:
            raise
        return None, 0


def _apart_mm(one: Array, other: Array, shape: tuple[int, ...]) -> float:
    corners = np.array([[*corner, 1.0] for corner in np.ndindex(2, 2, 2)]).T
    corners[:3] *= np.array(shape)[:, None] - 1
    return float(np.linalg.norm(((one - other) @ corners)[:3], axis=0).max())


def _check_affine(path: pathlib.Path, affine: Array) -> None:
    sizes_mm = np.sqrt((affine[:3, :3] ** 2).sum(axis=0))
    if not np.isfinite(affine).all():
        raise DataError(f"{path} has an affine with NaN or infinite entries; correct its sform")
    if (sizes_mm < 1e-3).any() or (sizes_mm > 1e3).any():
        raise DataError(f"{path} has voxels of {_by(sizes_mm)} mm; correct the voxel sizes in its header")
    if abs(np.linalg.det(affine[:3, :3] / sizes_mm)) < 1e-3:
        raise DataError(f"{path} has an affine whose axes lie in one plane; correct its sform")


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


def _by(values: Any) -> str:
    return " x ".join(f"{value:g}" for value in values) or "nothing"


def _first_line(fault: BaseException) -> str:
    return (str(fault).splitlines() or [type(fault).__name__])[0]
