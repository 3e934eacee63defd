"""JSON files that are checked on reading and never half-written."""

from __future__ import annotations

import collections
import contextlib
import errno
import json
import os
import pathlib
import stat
from collections.abc import Iterator
from typing import Any, BinaryIO

from hetero_mtf.errors import HeteroError
from hetero_mtf.file_kind import MAX_JSON_BYTES, file_kind, in_place_of
from hetero_mtf.scratch_file import open_scratch, remove_abandoned
from hetero_mtf.units import value_text

_NAMED = 20  # keys in a message


@contextlib.contextmanager
def replace_file(path: str | os.PathLike[str], suffix: str = "", sweep: bool = True) -> Iterator[BinaryIO]:
    """Yield a binary file that takes the place of `path` when the block ends well.

    The bytes are written beside the target, flushed to disk and then renamed, so a reader sees the old file or the new one and a
    failure leaves the old one alone. A symbolic link stays, and what it points to is replaced. The new file has the permissions, the
    owner and the group of the old one, or those that the user and the user's mask give; access control lists and extended attributes
    are not kept. It is a file of its own: further names (hard links) of the old file keep the old bytes. What a killed process left
    of an earlier attempt is removed; several processes may replace one file at once, and the last one wins.

    Parameters
    ----------
    path : path of the file to write or replace.
    suffix : end of the name that the file has meanwhile, for writers that need one.
    sweep : whether to remove what killed processes left, for which the whole folder is listed.

    Raises
    ------
    HeteroError
        If the folder is missing or not writable, the disk is full, `path` is something other than a file, or the owner of the old file
        cannot be kept.
    """
    target = pathlib.Path(os.path.realpath(path))
    try:
        old = _old_file(target)
        if sweep:
            remove_abandoned(target)
        with open_scratch(target, suffix, 0o666 if old is None else 0o600) as file:
            try:
                if old is not None:
                    _keep_owner(file, old, path)
                yield file
                file.flush()
                if old is not None:
                    os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
                os.fsync(file.fileno())
                os.replace(file.name, target)
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(file.name)
    except OSError as fault:
        reason = fault.strerror or " ".join(str(fault).split())
        raise HeteroError(f"cannot write {os.fspath(path)}: {reason}", "choose another place or free some space") from fault


def _old_file(target: pathlib.Path) -> os.stat_result | None:
    """Return the state of the file to replace, None where there is none."""
    try:
        old = target.stat()
    except FileNotFoundError:
        return None
    if stat.S_ISREG(old.st_mode) or stat.S_ISDIR(old.st_mode):  # a folder is refused by the system
        return old
    raise OSError(errno.EINVAL, "it is a device, a pipe or a socket and no file")


def _keep_owner(file: BinaryIO, old: os.stat_result, path: str | os.PathLike[str]) -> None:
    new = os.fstat(file.fileno())
    user, group = (-1 if now == before else before for now, before in ((new.st_uid, old.st_uid), (new.st_gid, old.st_gid)))
    if (user, group) == (-1, -1):
        return
    try:
        os.fchown(file.fileno(), user, group)
    except OSError as fault:
        wrong = f"cannot write {os.fspath(path)}: it belongs to user {old.st_uid} and group {old.st_gid}, which a new file would not"
        raise HeteroError(wrong, "write it as that user, or choose another place") from fault


def write_json(path: str | os.PathLike[str], document: dict[str, Any], sweep: bool = True) -> None:
    """Write `document` to `path` in one piece.

    Parameters
    ----------
    path : path of the file to write or replace.
    document : JSON-able dict.
    sweep : as for `replace_file`.

    Raises
    ------
    HeteroError
        As `replace_file`.
    """
    with replace_file(path, sweep=sweep) as file:
        file.write((json.dumps(document, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: str | os.PathLike[str], *, kind: str, version: int, earlier: tuple[int, ...] = ()) -> dict[str, Any]:
    """Return the document in a JSON file written for `kind` in schema `version`.

    Parameters
    ----------
    path : path of the file.
    kind : the document's `kind` entry, such as "plan" or "profile".
    version : the schema version this program writes and reads.
    earlier : versions that it still reads.

    Raises
    ------
    HeteroError
        If the file is missing, not JSON, too large, of another kind or version, or names a key of an object twice.
    """
    source = pathlib.Path(path)
    # the other kinds have the name of their command
    makers = {"profile": "calibrate", "measured": "train", "split": "train", "data": "train"}
    remedy = f"make it again with hetero-mtf {makers.get(kind, kind)}"
    repeated = _Repeated()
    try:
        if source.stat().st_size > MAX_JSON_BYTES:
            raise HeteroError(f"{source} has {source.stat().st_size} bytes, too many for a {kind}", remedy)
        document = json.loads(_bytes_of(source, kind, remedy), object_pairs_hook=repeated.read)
    except OSError as fault:
        raise HeteroError(f"cannot read {source}: {fault.strerror or fault}", "check the path") from fault
    except (ValueError, RecursionError) as fault:
        if isinstance(fault, HeteroError):
            raise
        if file_kind(source):
            raise HeteroError(f"{in_place_of(source, f'a {kind} file')}", remedy) from fault
        raise HeteroError(f"{source} is not a complete JSON file ({fault})", remedy) from fault
    if not isinstance(document, dict) or document.get("kind") != kind:
        raise HeteroError(f"{in_place_of(source, f'a {kind} file')}", remedy)
    if document.get("version") not in (version, *earlier) or isinstance(document["version"], bool):
        raise HeteroError(f"{source} has version {value_text(document.get('version'))} and this program reads {version}", remedy)
    if repeated.keys:
        raise HeteroError(f"{source} names {', '.join(repeated.keys)} twice in one object, so it is not clear what counts", remedy)
    return document


class _Repeated:
    """Reads JSON objects and remembers the keys that one of them names twice, up to twenty."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def read(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Return the object of some pairs."""
        json_object = dict(pairs)
        if len(json_object) < len(pairs) and len(self.keys) < _NAMED:
            twice = [value_text(key) for key, count in collections.Counter(key for key, _ in pairs).items() if count > 1]
            self.keys = list(dict.fromkeys([*self.keys, *twice]))[:_NAMED]
        return json_object


def _bytes_of(source: pathlib.Path, kind: str, remedy: str) -> bytes:
    """Return what is in a file, unless it is too much; what is no ordinary file may have no end."""
    with open(source, "rb") as file:
        text = file.read(MAX_JSON_BYTES + 1)
    if len(text) > MAX_JSON_BYTES:
        raise HeteroError(f"{source} has more than {MAX_JSON_BYTES} bytes, too many for a {kind}", remedy)
    return text
