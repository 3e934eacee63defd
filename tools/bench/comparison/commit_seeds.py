"""Seeds that follow from the last commit of the program, so that nobody chooses the networks they draw, or tunes the program to them."""

from __future__ import annotations

import hashlib
import pathlib
import subprocess

from hetero_mtf.errors import DataError

FOLDER = "hetero_mtf"
_REMEDY = "or name seeds by --seeds, which is no published run"


def last_commit(root: pathlib.Path) -> str:
    """Return the hash of the last commit that touched the program.

    Parameters
    ----------
    root : a clone.

    Raises
    ------
    DataError
        If the program has changes that are not committed, or its history is not there; commit them, or name seeds.
    """
    changes = _git(root, "status", "--porcelain", "--", FOLDER)
    if changes:
        raise DataError(f"{FOLDER} has changes that are not committed ({changes.splitlines()[0].strip()})", f"commit them, {_REMEDY}")
    if _git(root, "rev-parse", "--is-shallow-repository") == "true":
        raise DataError(f"this clone is shallow, so the last commit of {FOLDER} is not known", f"run git fetch --unshallow, {_REMEDY}")
    commit = _git(root, "log", "-1", "--format=%H", "--", FOLDER)
    if not commit:
        raise DataError(f"no commit has touched {FOLDER}", f"commit it, {_REMEDY}")
    return commit


def seed_of(commit: str, number: int) -> int:
    """Return the seed of a network: the first eight hexadecimal digits of the SHA-256 hash of "COMMIT:NUMBER".

    Parameters
    ----------
    commit : hash of a commit, 40 hexadecimal digits.
    number : number of the network, from 1.

    Examples
    --------
    >>> f"{seed_of('0' * 40, 1):08x}"
    'f3dcd5ad'
    """
    return int(hashlib.sha256(f"{commit}:{number}".encode()).hexdigest()[:8], 16)


def _git(root: pathlib.Path, *words: str) -> str:
    try:
        return subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as fault:
        reason = (getattr(fault, "stderr", "") or str(fault)).strip().partition("\n")[0]
        raise DataError(f"git does not tell the last commit of {FOLDER} ({reason})", f"run in a clone, {_REMEDY}") from fault
