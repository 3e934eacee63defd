"""VolumeCache: decoded and preprocessed volumes on disk, decoded again where their scans have changed."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import hashlib
import io
import os
import pathlib
import re
import threading
import time

import numpy as np

from hetero_mtf.data.array import Array
from hetero_mtf.data.volumes.cohort.participants import Scan
from hetero_mtf.data.volumes.images.nifti import CORRECT_PATH, Volume
from hetero_mtf.data.volumes.images.preprocessing import Preprocessing
from hetero_mtf.data.volumes.images.scan import read_scan
from hetero_mtf.errors import DataError, HeteroError
from hetero_mtf.file_kind import absent
from hetero_mtf.json_file import read_json, replace_file, write_json

KIND, VERSION = "volume", 1
ABANDONED_S = 3600.0  # a file still being written after so long belongs to a process that was killed
_NAMED = 80  # characters of a scan's key in a file's name


class VolumeCache:
    """Gives scans as arrays, from files of its own where it has them.

    An entry is a .npy file of float32, mapped into memory rather than read, with a .json file beside it. Its name holds digests of the
    scan's path, of the preprocessing, and of the size and times of change of the scan's file (and of its mask's), that of its inode too,
    which no copying or unpacking sets back: a changed file or choice never meets an old entry. An entry that a changed file has made
    stale is removed. Entries are written beside and renamed: several processes and threads may use one folder. Where an entry cannot be
    written the volume is handed over all the same, and no further one is tried. The folder may be deleted at any time.

    Parameters
    ----------
    folder : where entries are kept, made if need be; None keeps none, so that every volume is decoded each time.

    Attributes
    ----------
    trouble : why entries are no longer written, "" while they are.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, steps: Preprocessing) -> None:
        self.folder = None if folder is None else pathlib.Path(folder)
        self.steps = steps
        self.trouble = ""
        self._header = _header(steps.shape)
        self._counts = collections.Counter[str]()
        self._lock = threading.Lock()
        if self.folder is not None:
            self._remove_abandoned(self.folder)

    def get(self, scan: Scan) -> Array:
        """Return a scan as a network sees it, without its channel axis.

        Returns
        -------
        (D, H, W) array of float32, read-only where it is mapped from the cache.

        Raises
        ------
        DataError
            If its file cannot be used, as `read_scan`, or changes meanwhile.
        """
        state = self._state(scan)
        entry = self._entry(scan, state)
        values = None if entry is None else self._values(entry)
        if values is None:
            return self._decode(scan, state, entry).values
        self._count("kept")
        return values

    def volume(self, scan: Scan) -> Volume:
        """Return a scan as `get` does, with its affine, what was noted when it was decoded, and the digest that was taken then.

        Raises
        ------
        DataError
            As `get`.
        """
        state = self._state(scan)
        entry = self._entry(scan, state)
        values = None if entry is None else self._values(entry)
        if entry is not None and values is not None:
            with contextlib.suppress(HeteroError, KeyError, TypeError, ValueError):
                document = read_json(entry.with_suffix(".json"), kind=KIND, version=VERSION)
                affine = np.array(document["affine_mm"], np.float64).reshape(4, 4)
                self._count("kept")
                return Volume(values, affine, tuple(map(str, document["notes"])), str(document["content"]))
        return self._decode(scan, state, entry)

    @property
    def kept(self) -> int:
        """Number of volumes that were found in the folder since this cache was opened."""
        return self._counts["kept"]

    @property
    def decoded(self) -> int:
        """Number of volumes that were decoded from their files since then."""
        return self._counts["decoded"]

    def _count(self, what: str) -> None:
        with self._lock:
            self._counts[what] += 1

    def _decode(self, scan: Scan, state: tuple[str, str], entry: pathlib.Path | None) -> Volume:
        volume = read_scan(scan.path, self.steps, scan.mask)
        volume = dataclasses.replace(volume, content=hashlib.sha256(volume.values.tobytes()).hexdigest())
        self._count("decoded")
        if self._state(scan)[0] != state[0]:
            raise DataError(f"{scan.path} was changed while it was read", "start again when it is complete")
        if entry is not None and not self.trouble:
            self._keep(entry, volume)
        return volume

    def _keep(self, entry: pathlib.Path, volume: Volume) -> None:
        try:
            entry.parent.mkdir(parents=True, exist_ok=True)
            record = {"affine_mm": volume.affine.tolist(), "notes": list(volume.notes), "content": volume.content}
            write_json(entry.with_suffix(".json"), {"kind": KIND, "version": VERSION, **record}, sweep=False)
            with replace_file(entry, sweep=False) as file:  # swept when the cache is opened
                np.lib.format.write_array(file, volume.values, allow_pickle=False)
        except (OSError, HeteroError) as fault:
            self.trouble = f"decoded volumes are not kept from here on: {fault}"
            return
        for old in entry.parent.glob(f"{entry.stem.rpartition('_')[0]}_*"):
            if old.stem != entry.stem:
                with contextlib.suppress(OSError):
                    old.unlink()

    def _values(self, entry: pathlib.Path) -> Array | None:
        """Return what an entry holds, None where there is none or it is damaged.

        Its header is compared and not parsed: numpy parses it as Python source, which in Python 3.11 fails now and then in one of two
        threads that do so at once, as TensorFlow does where it traces (python/cpython issue 106905).
        """
        try:
            with open(entry, "rb") as file:
                known = file.read(len(self._header)) == self._header
                return np.memmap(file, "<f4", "r", len(self._header), self.steps.shape) if known else None
        except (OSError, ValueError):
            return None

    def _entry(self, scan: Scan, state: tuple[str, str]) -> pathlib.Path | None:
        if self.folder is None:
            return None
        where = _digest(*(os.path.realpath(path) for path in self._files(scan)))
        name = re.sub(r"[^A-Za-z0-9_-]", "-", scan.key)[:_NAMED]
        return self.folder / f"{name}_{where}_{self.steps.digest}_{_digest(*state)}.npy"

    def _files(self, scan: Scan) -> tuple[pathlib.Path, ...]:
        """Return the files that a volume is made of; a mask that is not wanted need not even be there."""
        return (scan.path,) if scan.mask is None or self.steps.mask != "table" else (scan.path, scan.mask)

    def _state(self, scan: Scan) -> tuple[str, str]:
        """Return digests of a scan's files: of size and time of change, and of when their inodes changed, as by a link to one too."""
        states, inodes = [], []
        for path in self._files(scan):
            try:
                status = os.stat(path)
            except FileNotFoundError as fault:
                raise DataError(absent(path, CORRECT_PATH)) from fault
            except (OSError, ValueError) as fault:
                reason = getattr(fault, "strerror", None) or fault
                raise DataError(f"cannot read {path}: {reason}", CORRECT_PATH) from fault
            states.append(f"{status.st_size} {status.st_mtime_ns}")
            inodes.append(f"{status.st_ctime_ns}")
        return _digest(*states), _digest(*inodes)

    @staticmethod
    def _remove_abandoned(folder: pathlib.Path) -> None:
        for left in folder.glob(".*.*.????????????"):
            with contextlib.suppress(OSError):
                if time.time() - left.stat().st_mtime > ABANDONED_S:
                    left.unlink()


def _header(shape: tuple[int, ...]) -> bytes:
    """Return what a .npy file of float32 of a shape begins with."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return file.getvalue()


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:12]
