"""Scratch files and writers' locks beside a file: locked while their process lives, so that what a killed one left is known and removed.

The locks are those of flock(2). The kernel releases one when its process ends, however it ends, and a file whose lock can be taken
has no owner any more. On a file system without such locks nothing is locked and nothing is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import re
import stat
import uuid
from collections.abc import Iterator
from typing import BinaryIO

from hetero_mtf.errors import HeteroError

_DIGITS = 12  # hexadecimal, of a scratch file's name
_NAME_SUFFIX = re.compile(rf"[0-9a-f]{{{_DIGITS}}}(\.\w+)?")


def open_scratch(target: pathlib.Path, suffix: str, mode: int) -> BinaryIO:
    """Return a new empty file beside `target`, open for writing and locked until it is closed.

    Parameters
    ----------
    target : the file that it is to replace.
    suffix : end of its name; may be empty.
    mode : its permissions, before the user's mask is taken off.

    Raises
    ------
    OSError
        If the folder is missing or not writable.
    """
    while True:
        path = target.parent / f".{target.name}.{uuid.uuid4().hex[:_DIGITS]}{suffix}"
        file = open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode))
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # removed before it was locked


def remove_abandoned(target: pathlib.Path) -> None:
    """Remove scratch files of `target` whose processes have ended; those of living processes stay.

    Parameters
    ----------
    target : the file that they were to replace.
    """
    start = f".{target.name}."
    with contextlib.suppress(OSError):
        for name in os.listdir(target.parent):  # a folder may have very many
            if name.startswith(start) and _NAME_SUFFIX.fullmatch(name, len(start)):
                _remove_unlocked(target.parent / name)


@contextlib.contextmanager
def sole_writer(path: str | os.PathLike[str]) -> Iterator[None]:
    """Be the only process that is in this block for a file; scratch files that killed processes left of it are removed.

    The lock is a file beside the real one, ".NAME.lock". It is not the file itself, which every save replaces. It is removed when the
    block ends; one that a killed process left is taken over.

    Parameters
    ----------
    path : path of the file; it need not exist, and links are followed.

    Raises
    ------
    HeteroError
        If another process is in the block, or the lock cannot be made.
    """
    target = pathlib.Path(os.path.realpath(path))
    lock = target.parent / f".{target.name}.lock"
    descriptor = _locked(lock, path)
    try:
        remove_abandoned(target)
        yield
    finally:
        with contextlib.suppress(OSError):
            lock.unlink()  # before the lock is released: a process that waits for it then sees that it has no name
        os.close(descriptor)


def _locked(lock: pathlib.Path, path: str | os.PathLike[str]) -> int:
    """Return the descriptor of a writer's lock that is held."""
    while True:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except OSError as fault:
            wrong = f"cannot lock {path} with {lock}: {fault.strerror or fault}"
            raise HeteroError(wrong, f"choose another place, or remove that file if nothing writes {path}") from fault
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as fault:
            holder = os.read(descriptor, 20).decode(errors="replace").strip()
            os.close(descriptor)
            who = f" (process {holder})" if holder.isdigit() else ""
            raise HeteroError(f"{path} is being written by another training{who}", "wait until it ends, or save to another file") from fault
        except OSError:
            return descriptor  # a file system without locks
        if os.fstat(descriptor).st_nlink:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
            return descriptor
        os.close(descriptor)  # its holder ended and removed it meanwhile


def _remove_unlocked(path: pathlib.Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
        finally:
            os.close(descriptor)
