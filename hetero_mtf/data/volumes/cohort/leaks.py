"""The leak check: that nothing which is tested on was trained on, neither a participant nor a scan under another name.

Files are compared byte for byte. A scan that was packed, exported or turned again is another file with the same picture: of scans that
were read, what a network sees is compared too.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
from collections.abc import Callable, Hashable, Iterable, Mapping

from hetero_mtf.data.volumes.cohort.participants import Participants, Scan
from hetero_mtf.data.volumes.cohort.split_check import shared_participants
from hetero_mtf.data.volumes.cohort.splits import Split

_GLANCE_BYTES = 2**16
_READ_BYTES = 2**20


def leaks(split: Split, participants: Participants) -> list[str]:
    """Return what is in two parts of a split, as texts; none where nothing leaks.

    Parameters
    ----------
    participants : the table; files that cannot be read are passed over, whatever reads the scans reports them.
    """
    part_of = {participants.form(who): name for name, ids in split.parts.items() for who in ids}
    part = {scan.participant: part_of.get(participants.form(scan.participant), "") for scan in participants.scans}
    placed = [scan for scan in participants.scans if part[scan.participant]]
    of_file: dict[pathlib.Path, list[Scan]] = {}
    for scan in placed:
        of_file.setdefault(scan.path, []).append(scan)
    files = _across([[scan for path in group for scan in of_file[path]] for group in copies(of_file)], part)
    pictures = [group for group in _across(_alike(placed), part) if not any(set(group) == set(copied) for copied in files)]
    return [
        *shared_participants(split, participants.comparison),
        *(f"{_named(group, part)} are the same file, byte for byte" for group in files),
        *(f"{_named(group, part)} are the same scan in different files" for group in pictures),
    ]


def _alike(scans: Iterable[Scan]) -> list[list[Scan]]:
    """Return the scans that were read, in groups of which a network sees the same."""
    by_content: dict[str, list[Scan]] = {}
    for scan in scans:
        by_content.setdefault(scan.content, []).append(scan)
    by_content.pop("", None)
    return list(by_content.values())


def _across(groups: Iterable[list[Scan]], part: Mapping[str, str]) -> list[list[Scan]]:
    return [group for group in groups if len({part[scan.participant] for scan in group}) > 1]


def leak_line(split: Split, participants: Participants) -> str:
    """Return the outcome of the leak check in a line, with what each part holds; it is printed for every training.

    Parameters
    ----------
    split, participants : as for `leaks`.
    """
    parts = "; ".join(_part_text(name, ids, participants) for name, ids in split.parts.items())
    leak_texts = leaks(split, participants)
    outcome = f"FAILED: {'; '.join(leak_texts)}" if leak_texts else "passed: no participant and no scan is in two parts"
    return f"leak check {outcome} ({parts})"


def copies(paths: Iterable[pathlib.Path]) -> list[list[pathlib.Path]]:
    """Return the files in groups of the same content; a file that is like no other is a group of its own.

    Only files of one length are read, first 64 KiB in their middle, and as a whole only where those agree.

    Parameters
    ----------
    paths : files; those that cannot be read are left out.
    """
    groups = [list(dict.fromkeys(paths))]
    for key in (_length, _glance, _digest):
        groups = [finer for group in groups for finer in _divided(group, key)]
    return groups


def _divided(group: list[pathlib.Path], key: Callable[[pathlib.Path], Hashable]) -> list[list[pathlib.Path]]:
    if len(group) == 1:
        return [group]
    by_key: dict[Hashable, list[pathlib.Path]] = {}
    for path in group:
        try:
            by_key.setdefault(key(path), []).append(path)
        except OSError:
            continue
    return list(by_key.values())


def _length(path: pathlib.Path) -> int:
    return path.stat().st_size


def _glance(path: pathlib.Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _GLANCE_BYTES) // 2)
        return file.read(_GLANCE_BYTES)


def _digest(path: pathlib.Path) -> bytes:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
    return digest.digest()


def _named(group: list[Scan], part: dict[str, str]) -> str:
    return " and ".join(f"{scan.key} ({part[scan.participant]} part)" for scan in group)


def _part_text(name: str, ids: tuple[str, ...], participants: Participants) -> str:
    """Return such as "test 30 participants, 31 scans: 15 AD, 16 NC"."""
    scans = participants.part(ids).scans
    counts = [f"{sum(scan.label == label for scan in scans)} {label}" for label in participants.classes]
    return f"{name} {len(set(map(participants.form, ids)))} participants, {len(scans)} scans: {', '.join(counts)}"
