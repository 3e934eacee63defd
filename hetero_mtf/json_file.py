"""JSON files that are checked on reading and never half-written."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import stat
import uuid
from collections.abc import Iterator
from typing import Any, BinaryIO

from hetero_mtf.errors import HeteroError

MAX_JSON_BYTES = 256 * 2**20


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
            if target.exists():
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


def read_json(path: str | os.PathLike[str], *, kind: str, version: int) -> dict[str, Any]:
    """Return the document in a JSON file written for `kind` in schema `version`.

    Parameters
    ----------
    path : path of the file.
    kind : the document's `kind` entry, such as "plan" or "profile".
    version : the schema version this program reads.

    Raises
    ------
    HeteroError
        If the file is missing, not JSON, too large, or of another kind or version.
    """
    source = pathlib.Path(path)
    makers = {"profile": "calibrate", "measured": "train"}  # the other kinds are called like their command
    remedy = f"make it again with hetero-mtf {makers.get(kind, kind)}"
    try:
        if source.stat().st_size > MAX_JSON_BYTES:
            raise HeteroError(f"{source} has {source.stat().st_size} bytes, too many for a {kind}; {remedy}")
        document = json.loads(source.read_bytes())
    except OSError as fault:
        raise HeteroError(f"cannot read {source}: {fault.strerror or fault}; check the path") from fault
    except (ValueError, RecursionError) as fault:
        if isinstance(fault, HeteroError):
            raise
        raise HeteroError(f"{source} is not a complete JSON file ({fault}); {remedy}") from fault
    if not isinstance(document, dict) or document.get("kind") != kind:
        raise HeteroError(f"{source} is not a {kind} file; {remedy}")
    if document.get("version") != version or isinstance(document["version"], bool):
        raise HeteroError(f"{source} has version {document.get('version')!r} and this program reads {version}; {remedy}")
    return document
