"""Scan and Participants: who was scanned, with which diagnosis, and in which file."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Collection, Iterable

import numpy as np

from hetero_mtf.data.array import Array
from hetero_mtf.data.volumes.cohort.spelling import ALIKE, participant_form, session_form
from hetero_mtf.errors import DataError

SESSIONS = ("session", "session_id")
CENTRES = ("site", "site_id")


@dataclasses.dataclass(frozen=True)
class Scan:
    """One row of the table: one volume file.

    Parameters
    ----------
    participant : as the table writes it, such as "sub-01" or "01".
    session : likewise, such as "ses-02", or None.
    label : the diagnosis, or None where it is not known.
    path : the volume's file.
    mask : the file of its mask, or None.
    line : line of the table, 0 where there is none.
    content : digest of what a network sees of it, "" where it was not read yet; scans are equal whatever it is.
    centre : the site where it was taken, as the table writes it, or None.
    """

    participant: str
    session: str | None
    label: str | None
    path: pathlib.Path
    mask: pathlib.Path | None = None
    line: int = 0
    content: str = dataclasses.field(default="", compare=False)
    centre: str | None = None

    @property
    def key(self) -> str:
        """Name of the scan, as BIDS writes it: "sub-01" or "sub-01_ses-02"."""
        subject = f"sub-{self.participant.removeprefix('sub-')}"
        return subject if self.session is None else f"{subject}_ses-{self.session.removeprefix('ses-')}"


@dataclasses.dataclass(frozen=True)
class Participants:
    """Scans and the classes of their labels.

    Parameters
    ----------
    path : the table.
    scans : in the table's order.
    label_column : name of the column of labels.
    classes : the labels' order; a label's class number is its place.
    session_column : name of the column of sessions, which outputs keep.
    centre_column : name of the column of sites, None where the table has none.
    comparison : how participants and sessions are compared, "alike" or "exact", as `participant_form`.
    notes : what was not plain about the table, for the log; cohorts are equal whatever they are.
    """

    path: pathlib.Path
    scans: tuple[Scan, ...]
    label_column: str
    classes: tuple[str, ...]
    session_column: str = SESSIONS[0]
    centre_column: str | None = None
    comparison: str = ALIKE
    notes: tuple[str, ...] = dataclasses.field(default=(), compare=False)

    @property
    def ids(self) -> tuple[str, ...]:
        """The participants, each once as it is written first, in the table's order."""
        return tuple(self.spellings.values())

    @property
    def spellings(self) -> dict[str, str]:
        """What all spellings of a participant share -> how the table writes it first, in the table's order."""
        first: dict[str, str] = {}
        for scan in self.scans:
            first.setdefault(self.form(scan.participant), scan.participant)
        return first

    @property
    def sessions(self) -> tuple[str | None, ...]:
        """(scans,) the session of each scan, all spellings of one as the table writes it first."""
        first: dict[str | None, str | None] = {}
        return tuple(first.setdefault(session_form(scan.session, self.comparison), scan.session) for scan in self.scans)

    def form(self, participant: str) -> str:
        """Return what all spellings of a participant share; two are one person where these are equal.

        Parameters
        ----------
        participant : as it is written here or elsewhere, such as in the file of a split.
        """
        return participant_form(participant, self.comparison)

    def identity(self, scan: Scan) -> tuple[str, str | None]:
        """Return what all rows of one participant and session share.

        Parameters
        ----------
        scan : one of the scans.
        """
        return self.form(scan.participant), session_form(scan.session, self.comparison)

    @property
    def y(self) -> Array:
        """(scans,) array of int64, class numbers.

        Raises
        ------
        DataError
            If a scan has no label, or one that is no class.
        """
        number = {name: at for at, name in enumerate(self.classes)}
        bad = [scan for scan in self.scans if scan.label not in number]
        if bad:
            examples = ", ".join(f"{scan.key} ({'no label' if scan.label is None else repr(scan.label)})" for scan in bad[:5])
            known = ", ".join(map(repr, self.classes)) or "none"
            wrong = f"{self.path}: {len(bad)} of {len(self.scans)} scans have no label among the classes {known}, such as {examples}"
            raise DataError(wrong, "write the labels, or read the table without them")
        return np.array([number[scan.label] for scan in self.scans if scan.label is not None], np.int64)

    def part(self, participants: Iterable[str]) -> Participants:
        """Return the scans of some participants, with the same classes.

        Parameters
        ----------
        participants : in any spelling that counts as the table's.
        """
        chosen = frozenset(map(self.form, participants))
        return dataclasses.replace(self, scans=tuple(scan for scan in self.scans if self.form(scan.participant) in chosen))

    def without(self, lines: Collection[int]) -> Participants:
        """Return all but the scans of some lines of the table.

        Parameters
        ----------
        lines : line numbers.
        """
        return dataclasses.replace(self, scans=tuple(scan for scan in self.scans if scan.line not in lines))
