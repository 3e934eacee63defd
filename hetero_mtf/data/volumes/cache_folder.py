"""Where decoded volumes are kept: beside the table, or else in the user's folder for caches."""

from __future__ import annotations

import os
import pathlib
import re
import uuid
from collections.abc import Iterable, Mapping

from hetero_mtf.devices.environment import user_caches
from hetero_mtf.errors import DataError

_ENTRY = re.compile(r".*(_[0-9a-f]{12}){3}\.(npy|json)", re.DOTALL)  # as `VolumeCache` names them
BESIDE = ".hetero_mtf_cache"  # BIDS's validator passes over what begins with a dot


def cache_folder(
    table: str | os.PathLike[str], variables: Mapping[str, str], chosen: str | os.PathLike[str] | None = None
) -> tuple[pathlib.Path, tuple[str, ...]]:
    """Return a folder that can be written to, made if need be, and notes for the log.

    The default is beside the table, where there is room for scans and from where it moves with them; if that cannot be written to, it is
    in the user's folder for caches.

    Parameters
    ----------
    table : the table of participants.
    variables : environment variables, which give the user's folder for caches.
    chosen : a folder the user asked for; nothing else is tried then.

    Raises
    ------
    DataError
        If none of them can be written to.
    """
    if chosen is not None:
        reason = _refusal(pathlib.Path(chosen))
        if reason:
            raise DataError(f"the cache cannot be kept in {chosen}: {reason}", "choose another folder, or train without a cache")
        return pathlib.Path(chosen), ()
    reasons: list[str] = []
    for place in cache_places(table, variables):
        reason = _refusal(place)
        if not reason:
            return place, tuple(f"{reason}: the cache is kept in {place}" for reason in reasons)
        reasons.append(f"{place} cannot be written to ({reason})")
    raise DataError(f"the cache can be kept nowhere: {'; '.join(reasons)}", "name a folder for it, or train without a cache")


def cache_places(
    table: str | os.PathLike[str], variables: Mapping[str, str], chosen: str | os.PathLike[str] | None = None
) -> tuple[pathlib.Path, ...]:
    """Return the folders that `cache_folder` tries, in its order; none is made.

    Parameters
    ----------
    table, variables, chosen : as for `cache_folder`.
    """
    if chosen is not None:
        return (pathlib.Path(chosen),)
    caches = user_caches(variables)
    return (pathlib.Path(table).parent / BESIDE, *([] if caches is None else [caches / "volumes"]))


def kept_files(folders: Iterable[pathlib.Path]) -> tuple[pathlib.Path, ...]:
    """Return the files of decoded volumes in some folders, by their names.

    Parameters
    ----------
    folders : where to look; one that cannot be read holds none.
    """
    return tuple(path for folder in folders for path in sorted(folder.glob("*_*_*_*.*")) if _ENTRY.fullmatch(path.name))


def _refusal(folder: pathlib.Path) -> str:
    """Return why a folder cannot be made or written to, "" if it can."""
    trial = folder / f".trial.{uuid.uuid4().hex[:12]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        trial.touch(exist_ok=False)
        trial.unlink()
    except OSError as fault:
        return fault.strerror or str(fault)
    return ""
