"""A JSON document and arrays in a zip archive that is not compressed: sizes are checked against the file before anything is read."""

from __future__ import annotations

import json
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Collection, Mapping
from typing import Any, BinaryIO

import numpy as np

from hetero_mtf.npz_file import SUFFIX, write_npz

DAMAGED = (  # what reading a damaged archive, or JSON in one, raises besides OSError
    *(ValueError, KeyError, EOFError, zipfile.BadZipFile, AttributeError, TypeError, OverflowError),
    *(NotImplementedError, RuntimeError, struct.error, zlib.error, MemoryError),  # RecursionError is a RuntimeError
)
_DOCUMENT = "meta"  # name of the document's array
_MAGIC = b"\x93NUMPY"
_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}  # of the header's length, by major version
_SHAPE = rb"\((|\d{1,18},|\d{1,18}(?:, \d{1,18}){1,31})\)"
_HEADER = re.compile(rb"\{'descr': '([<>|][fiub]\d{1,2})', 'fortran_order': (True|False), 'shape': " + _SHAPE + rb", \} *\n")
_ENCRYPTED = 0x1


def write_archive(file: BinaryIO, document: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write a document and arrays of numbers as `numpy.savez` does.

    Parameters
    ----------
    file : open for writing.
    document : what JSON can hold.
    arrays : name -> array.
    """
    text = np.frombuffer(json.dumps(document).encode(), np.uint8)
    write_npz(file, {_DOCUMENT: text, **arrays})


def read_archive(path: str | os.PathLike[str], names: Collection[str] | None = None) -> tuple[Any, dict[str, np.ndarray]]:
    """Return the document and the arrays in a file written by `write_archive`.

    A member must be stored as it is, not compressed, and hold exactly the bytes that its header declares; all together hold no more
    than the file has. So a file never takes more memory than about its own size, and no header is evaluated as Python source.

    Parameters
    ----------
    path : path of the file.
    names : the arrays to read beside the document; None for all.

    Raises
    ------
    ValueError
        If a member is compressed, encrypted, there twice, no array of numbers, or of another size than it declares.
    OSError, or one of `DAMAGED`
        If the archive is damaged.
    """
    with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
        size_bytes = os.fstat(file.fileno()).st_size
        members = archive.infolist()
        for member in members:
            _check_member(member)
        if len({member.filename for member in members}) < len(members):
            raise ValueError("a member is there twice")
        if sum(member.file_size for member in members) > size_bytes:
            raise ValueError(f"its members declare more than the {size_bytes} bytes of the file")
        named = {member.filename.removesuffix(SUFFIX): member for member in members}
        wanted = named if names is None else {name: named[name] for name in (_DOCUMENT, *names)}
        arrays = {name: _array(archive.read(member)) for name, member in wanted.items()}
    return json.loads(arrays.pop(_DOCUMENT).tobytes()), arrays


def _check_member(member: zipfile.ZipInfo) -> None:
    if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
        raise ValueError("a member is compressed")
    if member.flag_bits & _ENCRYPTED or not member.filename.endswith(SUFFIX):
        raise ValueError("a member is encrypted or no array")


def _array(content: bytes) -> np.ndarray:
    """Return the array in the bytes of a .npy file."""
    start = len(_MAGIC) + 2
    if len(content) < start or not content.startswith(_MAGIC) or content[len(_MAGIC)] not in _LENGTH_BYTES:
        raise ValueError("a member is no array")
    width = _LENGTH_BYTES[content[len(_MAGIC)]]
    begin = start + width + int.from_bytes(content[start : start + width], "little")
    header = _HEADER.fullmatch(content, start + width, begin) if begin <= len(content) else None
    if header is None:
        raise ValueError("a member is no array of numbers")
    dtype, shape = np.dtype(header[1].decode()), tuple(int(extent) for extent in re.findall(rb"\d+", header[3]))
    if math.prod(shape) * dtype.itemsize != len(content) - begin:
        raise ValueError(f"an array of {len(content) - begin} bytes declares {math.prod(shape)} elements of {dtype}")
    return np.frombuffer(content, dtype, offset=begin).reshape(shape, order="F" if header[2] == b"True" else "C").copy()
