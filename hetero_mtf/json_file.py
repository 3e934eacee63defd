"""JSON files that are checked on reading and never half-written."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import pathlib
import stat
import uuid
from collections.abc import Iterator
from typing import Any, BinaryIO

from hetero_mtf.errors import HeteroError
from hetero_mtf.units import value_text

MAX_JSON_BYTES = 256 * 2**20
_NAMED = 20  # keys in a message


@contextlib.contextmanager
def replace_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a binary file that takes the place of `path` when the block ends well.

    The bytes are written beside the target, flushed to disk and then renamed, so a reader sees
    the old file or the new one and a failure leaves the old one alone. The new file has the permissions
    of the old one, or those that the user's mask gives.

    Parameters
    ----------
    path : path of the file to write or replace.

    Raises
    ------
    HeteroError
        If the folder is missing or not writable, or the disk is full.
    """
    target = pathlib.Path(path)
    scratch = target.parent / f".{target.name}.{uuid.uuid4().hex[:12]}"
    try:
        with open(scratch, "xb") as file:
            with contextlib.suppress(FileNotFoundError):  # asked once: another process may remove it at any time
                os.chmod(scratch, stat.S_IMODE(target.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, target)
    except OSError as fault:
        reason = fault.strerror or str(fault)
        raise HeteroError(f"cannot write {target}: {reason}; choose another place or free some space") from fault
    finally:
        with contextlib.suppress(OSError):
            scratch.unlink()


def write_json(path: str | os.PathLike[str], document: dict[str, Any]) -> None:
    """Write `document` to `path` in one piece.

    Parameters
    ----------
    path : path of the file to write or replace.
    document : JSON-able dict.

    Raises
    ------
    HeteroError
        As `replace_file`.
    """
    with replace_file(path) as file:
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
    # the other kinds are called like their command
    makers = {"profile": "calibrate", "measured": "train", "split": "train", "data": "train"}
    remedy = f"make it again with hetero-mtf {makers.get(kind, kind)}"
    repeated = _Repeated()
    try:
        if source.stat().st_size > MAX_JSON_BYTES:
            raise HeteroError(f"{source} has {source.stat().st_size} bytes, too many for a {kind}; {remedy}")
        document = json.loads(_bytes_of(source, kind, remedy), object_pairs_hook=repeated.read)
    except OSError as fault:
        raise HeteroError(f"cannot read {source}: {fault.strerror or fault}; check the path") from fault
    except (ValueError, RecursionError) as fault:
        if isinstance(fault, HeteroError):
            raise
        raise HeteroError(f"{source} is not a complete JSON file ({fault}); {remedy}") from fault
    if not isinstance(document, dict) or document.get("kind") != kind:
        raise HeteroError(f"{source} is not a {kind} file; {remedy}")
    if document.get("version") not in (version, *earlier) or isinstance(document["version"], bool):
        raise HeteroError(f"{source} has version {value_text(document.get('version'))} and this program reads {version}; {remedy}")
    if repeated.keys:
        raise HeteroError(f"{source} names {', '.join(repeated.keys)} twice in one object, so it is not clear what counts; {remedy}")
    return document


class _Repeated:
    """Reads JSON objects and remembers the keys that one of them names twice, up to twenty."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def read(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Return the object of some pairs."""
        made = dict(pairs)
        if len(made) < len(pairs) and len(self.keys) < _NAMED:
            twice = [value_text(key) for key, count in collections.Counter(key for key, _ in pairs).items() if count > 1]
            self.keys = list(dict.fromkeys([*self.keys, *twice]))[:_NAMED]
        return made


def _bytes_of(source: pathlib.Path, kind: str, remedy: str) -> bytes:
    """Return what is in a file, unless it is too much; what is no ordinary file may have no end."""
    with open(source, "rb") as file:
        text = file.read(MAX_JSON_BYTES + 1)
    if len(text) > MAX_JSON_BYTES:
        raise HeteroError(f"{source} has more than {MAX_JSON_BYTES} bytes, too many for a {kind}; {remedy}")
    return text
