"""Repetitions: rows of one participant and session, files that are listed twice, and participants that are written in two forms."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence

from hetero_mtf.data.volumes.cohort.fault import CohortFault
from hetero_mtf.data.volumes.cohort.participants import Participants, Scan
from hetero_mtf.units import list_text

_NAMED = 5  # participants in a message
_EXACT = "--ids exact (ids='exact')"


def repetition_faults(participants: Participants) -> list[CohortFault]:
    """Return a fault for every row with the participant and session, or else the file, of another.

    Of rows that agree the first can stay; where labels or participants differ it is not known which is right.

    Parameters
    ----------
    participants : all scans of a table.
    """
    faults = []
    for first, *others in _groups(participants.scans, participants.identity):
        same = len({scan.label for scan in (first, *others)}) == 1
        pairs = [(scan, first) for scan in others] + ([] if same else [(first, others[0])])
        faults += [_fault(scan, f"line {other.line}{_same_session(scan, other)}") for scan, other in pairs]
    for first, *others in _groups(participants.scans, lambda scan: os.path.realpath(scan.path)):
        strangers = [scan for scan in others if participants.identity(scan) != participants.identity(first)]
        pairs = [(scan, first) for scan in strangers] + ([(first, strangers[0])] if strangers else [])
        for scan, other in pairs:
            wrong = f"its file {scan.path} is that of line {other.line} ({other.key})"
            faults.append(_fault(scan, f"{wrong}; one scan cannot be of two, correct the path"))
    return faults


def spelling_faults(participants: Participants) -> list[CohortFault]:
    """Return a fault for the participants of whom rows differ in writing only: one person could be trained on and tested on.

    It is a fault of no single row, since it is not known which spelling is right, or whether they are two people.

    Parameters
    ----------
    participants : all scans of a table.
    """
    spellings = [_spellings(group) for group in _groups(participants.scans, lambda scan: participants.form(scan.participant))]
    pairs = [" and ".join(f"{text!r} (line {line})" for text, line in lines.items()) for lines in spellings if len(lines) > 1]
    if not pairs:
        return []
    remedy = f"write each alike, or take them as different people with {_EXACT}"
    return [CohortFault(f"participants {list_text(pairs, _NAMED)} differ in writing only; {remedy}")]


def _spellings(scans: Sequence[Scan]) -> dict[str, int]:
    """Return how a participant is written -> the first line where it is."""
    lines: dict[str, int] = {}
    for scan in scans:
        lines.setdefault(scan.participant, scan.line)
    return lines


def _same_session(scan: Scan, other: Scan) -> str:
    if (scan.participant, scan.session) == (other.participant, other.session):
        return " is of the same participant and session; keep one of them"
    written = other.participant if other.session is None else f"{other.participant}, session {other.session}"
    return f" ({written}) is of the same participant and session in another spelling; keep one of them, or take them as two with {_EXACT}"


def _fault(scan: Scan, wrong: str) -> CohortFault:
    return CohortFault(f"line {scan.line} ({scan.participant}): {wrong}", scan.line)


def _groups(scans: Sequence[Scan], name: Callable[[Scan], Hashable]) -> list[list[Scan]]:
    groups: dict[Hashable, list[Scan]] = {}
    for scan in scans:
        groups.setdefault(name(scan), []).append(scan)
    return [group for group in groups.values() if len(group) > 1]
