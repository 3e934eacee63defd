"""What kind of file a path names, for the message about a file that was given in the place of another."""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import struct
import zipfile
import zlib
from collections.abc import Set

CHECKPOINT = "a checkpoint of hetero-mtf train --save"
ARRAYS = "an .npz file of arrays"
PROFILE = "a profile of hetero-mtf calibrate"
PLAN_HISTORY = "the plans of a training"
NIFTI = "a NIfTI file"
GZIP = "a gzip file"
MAX_JSON_BYTES = 256 * 2**20  # of a file that is read as JSON
HEAD_BYTES = 2**16  # by which a file is known
_DOCUMENTS = {
    "plan": "a plan of hetero-mtf plan",
    "profile": PROFILE,
    "plan_history": PLAN_HISTORY,
    "measured": "the measured times of hetero-mtf train",
    "data": "the description of the volumes beside a checkpoint",
    "split": "a split of hetero-mtf train --split",
    "scores": "the scores of hetero-mtf evaluate --json",
}
_SIDECAR = {"ConversionSoftware", "EchoTime", "MagneticFieldStrength", "Manufacturer", "Modality", "RepetitionTime", "SeriesDescription"}
_ANNEX = "annex/objects/"  # in the target of each link of git-annex, and in its pointers
_GET = "get the content with datalad get or git annex get"
_DOWNLOAD = "download the file again, logged in where that is needed"
_ONE_FILE = "convert header and voxels to one .nii file, for instance with mri_convert"


@dataclasses.dataclass(frozen=True)
class FileKind:
    """What a file is.

    Parameters
    ----------
    text : such as "a zip file"; "" where it is not known.
    remedy : what to do where its content, or a scan as NIfTI, was wanted; "" where that depends on what was.
    """

    text: str = ""
    remedy: str = ""


_UNKNOWN = FileKind()
_PICTURE = FileKind("a picture", "take the 3-D series")
_ZIP = FileKind("a zip file", "unpack it and name the file in it")
_DICOM = FileKind("a DICOM file", "convert its series to NIfTI, for instance with dcm2niix")
_MINC = "convert it to NIfTI, MINC for instance with mnc2nii"
_APPLE = FileKind("a companion file of macOS (AppleDouble)", "name the scan itself, whose name has no ._ before it")
_FORMATS = (  # offset, bytes, kind
    (0, b"\x89HDF", FileKind("an HDF5 file (.h5)", _MINC)),
    (0, b"CDF\x01", FileKind("a netCDF file", _MINC)),
    (0, b"CDF\x02", FileKind("a netCDF file", _MINC)),
    (0, b"\x1f\x8b", FileKind(GZIP, "give it the ending .gz and unpack it with gunzip")),
    (0, b"\x1f\x9d", FileKind("a compress file (.Z)", "give it the ending .Z and unpack it with uncompress")),
    (0, b"BZh", FileKind("a bzip2 file", "give it the ending .bz2 and unpack it with bunzip2")),
    (0, b"\xfd7zXZ\x00", FileKind("an xz file", "give it the ending .xz and unpack it with unxz")),
    (0, b"\x28\xb5\x2f\xfd", FileKind("a zstd file", "give it the ending .zst and unpack it with unzstd")),
    (0, b"7z\xbc\xaf\x27\x1c", FileKind("a 7-zip file", "unpack it and name the file in it")),
    (0, b"Rar!\x1a\x07", FileKind("a RAR file", "unpack it and name the file in it")),
    (257, b"ustar", FileKind("a tar archive", "unpack it and name the file in it")),
    (0, b"\x89PNG", _PICTURE),
    (0, b"\xff\xd8\xff", _PICTURE),
    (0, b"GIF8", _PICTURE),
    (0, b"II*\x00", _PICTURE),
    (0, b"MM\x00*", _PICTURE),
    (0, b"%PDF-", FileKind("a PDF document", _DOWNLOAD)),
    (0, b"\x93NUMPY", FileKind("a single NumPy array (.npy)", "save it as NIfTI, with its affine")),
    (0, b"MATLAB 5.0", FileKind("a MATLAB file (.mat)", "save its array as NIfTI, with its affine")),
    (0, b"NRRD000", FileKind("an NRRD file", "convert it to NIfTI, for instance with 3D Slicer")),
    (128, b"DICM", _DICOM),
    (0, b"\x08\x00\x05\x00", _DICOM),  # without a preamble: the first element of group 8
    (0, b"\x08\x00\x08\x00", _DICOM),
    (0, b"\x00\x05\x16\x07", _APPLE),
    (0, b"version https://git-lfs", FileKind("a Git LFS pointer", "get the content with git lfs pull")),
)


def file_kind(path: str | os.PathLike[str]) -> str:
    """Return what a file is, such as "a plan of hetero-mtf plan"; "" where that is not known. Nothing in the file is executed.

    Parameters
    ----------
    path : path of the file; where it cannot be read its kind is not known.
    """
    return known_kind(path).text


def known_kind(path: str | os.PathLike[str]) -> FileKind:
    """Return what a file is and what to do with it. Nothing in the file is executed.

    Parameters
    ----------
    path : path of the file; where it cannot be read its kind is not known.
    """
    try:
        return _kind(pathlib.Path(path))
    except (OSError, ValueError, RecursionError, zipfile.BadZipFile, NotImplementedError):
        return _UNKNOWN


def content_kind(head: bytes) -> FileKind:
    """Return what a file is that begins with some bytes, as far as these tell.

    Parameters
    ----------
    head : its first `HEAD_BYTES` bytes, or all where it has fewer.
    """
    known = next((kind for start, magic, kind in _FORMATS if head.startswith(magic, start)), _UNKNOWN)
    if known.text:
        return known
    if head.startswith(b"PK\x03\x04"):
        return _ZIP
    return _volume_kind(head) or _line_kind(head) or _UNKNOWN


def in_place_of(path: str | os.PathLike[str], wanted: str) -> str:
    """Return the clause that a file is of another kind than the one that is wanted, with what it is where that is known.

    Parameters
    ----------
    path : path of the file.
    wanted : what it must be, such as "a checkpoint".
    """
    kind = file_kind(path)
    return f"{os.fspath(path)} is {f'{kind} and ' if kind else ''}not {wanted}"


def absent(path: str | os.PathLike[str], remedy: str) -> str:
    """Return the sentence that there is no file at a path, with where a link there leads to.

    Parameters
    ----------
    path : a path at which no file can be opened.
    remedy : what to do where there is not even a link.
    """
    if not os.path.islink(path):
        return f"{os.fspath(path)} does not exist; {remedy}"
    target = os.path.realpath(path)
    if _ANNEX in target.replace(os.sep, "/"):
        return f"{os.fspath(path)} is a link of git-annex whose content is not here; {_GET}"
    return f"{os.fspath(path)} is a link to {target}, which does not exist; correct the link, or {remedy}"


def _kind(path: pathlib.Path) -> FileKind:
    if not path.is_file():
        return _UNKNOWN
    with open(path, "rb") as file:
        head = file.read(HEAD_BYTES)
    if head.startswith(b"PK"):
        return _archive_kind(path)
    known = content_kind(head)
    if known.text == GZIP:
        return _packed_kind(head) or known
    if known.text or path.stat().st_size > MAX_JSON_BYTES:
        return known
    return _text_kind(path, head)


def _packed_kind(head: bytes) -> FileKind | None:
    """Return the kind of a gzip file by what its beginning holds; None where that is not known."""
    with contextlib.suppress(zlib.error):
        inner = content_kind(zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(head, HEAD_BYTES))
        if inner.text == GZIP:
            return FileKind("a gzip file within a gzip file", "unpack it once with gunzip, keeping .gz in its name")
        if inner.text:
            return FileKind(f"{GZIP} that holds {inner.text}", "rename it to end in .nii.gz" if inner.text == NIFTI else inner.remedy)
    return None


def _archive_kind(path: pathlib.Path) -> FileKind:
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
    if {"config.json", "metadata.json"} <= names:
        return FileKind("a Keras model (.keras)")
    if names and all(name.endswith(".npy") for name in names):
        return FileKind(CHECKPOINT if "meta.npy" in names else ARRAYS)
    return _ZIP


def _volume_kind(head: bytes) -> FileKind | None:
    """Return the kind of a medical volume that only its header's fields tell."""
    if len(head) >= 348 and not any(head[:512]):
        return FileKind("a file that begins with zeros", "download or copy it again, it was interrupted")
    if len(head) >= 24:
        version, *sizes, voxel_type = struct.unpack_from(">6i", head)
        if version == 1 and min(sizes) >= 1 and voxel_type in (0, 1, 3, 4):
            return FileKind("a FreeSurfer volume (.mgh)", "name it .mgh, or .mgz if packed, and convert it to NIfTI with mri_convert")
    if len(head) < 348:
        return None
    length = {struct.unpack(order, head[:4])[0] for order in ("<i", ">i")}
    magic = head[344:348] if 348 in length else head[4:8] if 540 in length else b""
    if magic in (b"n+1\0", b"n+2\0"):
        return FileKind(NIFTI, "rename it to end in .nii")
    if magic in (b"ni1\0", b"ni2\0"):
        return FileKind("the header of a NIfTI pair (.hdr and .img)", _ONE_FILE)
    if 348 in length and len(head) <= 352:
        return FileKind("an Analyze header (.hdr) without its voxels (.img)", _ONE_FILE)
    return None


def _line_kind(head: bytes) -> FileKind | None:
    """Return the kind of a text that was stored in the place of a file, by its beginning."""
    text = head[:4096].decode("utf-8", errors="replace").lstrip("\ufeff \t\r\n")
    if text.startswith("<"):
        return _markup_kind(text)
    line = text.partition("\n")[0].strip()
    if _ANNEX in line.replace("\\", "/") and not line.startswith("{"):
        return FileKind("a pointer of git-annex", _GET)
    short = len(head) < 4096 and line.isprintable()
    if short and line == text.strip() and line.endswith((".nii", ".nii.gz")) and "\t" not in line:
        return FileKind(f"a text with the path {line}", "copy the file that it names, as a link was stored in its place")
    if short and re.match(r"(HTTP/[\d.]+ )?[45]\d\d\b", line):
        return FileKind(f"the error message of a server ({line[:60]})", _DOWNLOAD)
    return None


def _markup_kind(text: str) -> FileKind | None:
    lowered = text.lower()
    if "<html" in lowered or lowered.startswith("<!doctype html"):
        return FileKind("an HTML page", _DOWNLOAD)
    if "<gifti" in lowered:
        return FileKind("a surface (GIFTI)", "take the volume")
    error = re.search(r"<code>\s*(\w+)\s*</code>", text, re.IGNORECASE)
    if "<error" in lowered and error is not None:
        return FileKind(f"the error message of a server ({error[1]})", _DOWNLOAD)
    return FileKind("an XML file", _DOWNLOAD) if lowered.startswith("<?xml") else None


def _text_kind(path: pathlib.Path, head: bytes) -> FileKind:
    text = codecs.getincrementaldecoder("utf-8")().decode(head)
    if "\0" in text:
        return _UNKNOWN
    if not text.lstrip().startswith("{"):
        columns = text.partition("\n")[0].split("\t")
        return FileKind(f"a table with the columns {', '.join(columns[:4])}" if len(columns) > 1 else "")
    document = json.loads(path.read_text(encoding="utf-8"))
    return FileKind(_DOCUMENTS[kind]) if (kind := str(document.get("kind"))) in _DOCUMENTS else _object_kind(document.keys())


def _object_kind(keys: Set[str]) -> FileKind:
    """Return the kind of a JSON object of others, by its keys."""
    if keys & _SIDECAR:
        return FileKind("the JSON sidecar of a scan", "name the .nii or .nii.gz file beside it")
    if keys & {"error", "errors"} or ("message" in keys and keys & {"code", "status", "statusCode", "documentation_url"}):
        return FileKind("the error message of a server (JSON)", _DOWNLOAD)
    return _UNKNOWN
