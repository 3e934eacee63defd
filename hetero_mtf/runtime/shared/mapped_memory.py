"""Memory that a process shares with others of its host: an anonymous file, which ends with its owner and which others open through it."""

from __future__ import annotations

import mmap
import os
import threading

_MAPPED: dict[tuple[str, int], mmap.mmap] = {}  # of other processes' memory, by path and inode
_MAPPING = threading.Lock()  # several operations of a step ask at once

Place = tuple[str, int]
"""Path and inode by which other processes open a memory."""


class SharedMemory:
    """Memory of this process.

    Parameters
    ----------
    size : its bytes; only those that are used take memory.

    Raises
    ------
    OSError, AttributeError
        If the system has no anonymous files.
    """

    def __init__(self, size: int) -> None:
        self._descriptor = os.memfd_create("hetero_mtf")
        self.place: Place = (f"/proc/{os.getpid()}/fd/{self._descriptor}", os.fstat(self._descriptor).st_ino)
        os.ftruncate(self._descriptor, size)

    def mapped(self) -> mmap.mmap:
        """Return it in the address space of this process."""
        return mmap.mmap(self._descriptor, 0)

    def close(self) -> None:
        """Give it back, as soon as no process uses it; closing twice is harmless."""
        if getattr(self, "_descriptor", -1) >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def __del__(self) -> None:
        self.close()


def mapped(path: str, inode: int) -> mmap.mmap:
    """Return another process's memory, mapped once; memory that has no owner any more is given back.

    Parameters
    ----------
    path, inode : its place.

    Raises
    ------
    OSError
        If it is not there.
    """
    with _MAPPING:
        memory = _MAPPED.get((path, inode))
        if memory is None:
            for known in [known for known in _MAPPED if not _is_there(*known)]:
                del _MAPPED[known]
            descriptor = os.open(path, os.O_RDWR)
            try:
                memory = _MAPPED[path, inode] = mmap.mmap(descriptor, 0)
            finally:
                os.close(descriptor)
        return memory


def _is_there(path: str, inode: int) -> bool:
    try:
        return os.stat(path).st_ino == inode
    except OSError:
        return False
