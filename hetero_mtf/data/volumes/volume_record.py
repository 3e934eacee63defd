"""VolumeRecord: what is stored of the volumes a network was trained on: how they were read, and which participants were in which part."""

from __future__ import annotations

import dataclasses
import hashlib
import os

from hetero_mtf.data.volumes.augmentation import Augmentation
from hetero_mtf.data.volumes.cohort.participants import Participants
from hetero_mtf.data.volumes.cohort.spelling import ALIKE, cell_text, check_ids, participant_form
from hetero_mtf.data.volumes.cohort.splits import PARTS, Split
from hetero_mtf.data.volumes.images.preprocessing import Preprocessing

ELSEWHERE = "none"


@dataclasses.dataclass(frozen=True)
class VolumeRecord:
    """The volumes of a training.

    Parameters
    ----------
    table : name of the table's file, without its folder; files of earlier versions have its absolute path.
    label : name of its column of labels.
    classes : the labels in their order; a label's class number is its place.
    preprocessing : from files to arrays.
    augmentation : of the training part.
    split : who was trained on, chosen by and tested on.
    class_weight : (classes,) how much a scan of each class counts in the loss; () for 1 each.
    scans : a digest of each scan of the split's participants, `scan_digests`; () in files of earlier versions.
    centre : name of the table's column of sites, None where it had none.
    ids : how its participants were compared, "alike" or "exact"; files of earlier versions have none, and theirs count as alike.

    Raises
    ------
    DataError
        If `ids` is neither.
    """

    table: str
    label: str
    classes: tuple[str, ...]
    preprocessing: Preprocessing
    augmentation: Augmentation
    split: Split
    class_weight: tuple[float, ...] = ()
    scans: tuple[str, ...] = ()
    centre: str | None = None
    ids: str = ALIKE

    def __post_init__(self) -> None:
        check_ids(self.ids)
        # As tables are read now: files of earlier versions have labels and names of columns as their table writes them.
        object.__setattr__(self, "label", cell_text(self.label))
        object.__setattr__(self, "classes", tuple(map(cell_text, self.classes)))
        object.__setattr__(self, "centre", None if self.centre is None else cell_text(self.centre))

    def is_of(self, participants: Participants) -> bool:
        """Return whether a table is the one that was trained with, wherever it is now and whichever rows were added or removed.

        It is if it has participants of the split, and the same entries for each of their scans as then.
        """
        if self.scans:
            now = scan_digests(participants, self.split)
            return bool(now) and set(now) <= set(self.scans)
        return os.path.realpath(participants.path) == os.path.realpath(self.table)

    def part(self, participant: str) -> str:
        """Return the part a participant of the table was in, "none" if in no part.

        Parameters
        ----------
        participant : as the table writes it.
        """
        return self._parts(self.ids).get(participant_form(participant, self.ids), ELSEWHERE)

    def parts(self, participants: Participants) -> tuple[str, ...]:
        """Return (scans,) the part that the participant of each scan was in, "none" if in no part.

        Parameters
        ----------
        participants : scans, with how their participants are compared with those of the split.
        """
        parts = self._parts(participants.comparison)
        return tuple(parts.get(participants.form(scan.participant), ELSEWHERE) for scan in participants.scans)

    def trained_on(self, participants: Participants) -> tuple[str, ...]:
        """Return the participants that are named like some that were trained on or chosen by.

        Parameters
        ----------
        participants : as for `parts`; they may be others, of another study.
        """
        parts = self._parts(participants.comparison)
        return tuple(who for form, who in participants.spellings.items() if parts.get(form) in PARTS[:2])

    def _parts(self, ids: str) -> dict[str, str]:
        """Return what all spellings of a participant share -> the part it was in, of several the first."""
        return {participant_form(who, ids): name for name in reversed(PARTS) for who in getattr(self.split, name)}


def scan_digests(participants: Participants, split: Split) -> tuple[str, ...]:
    """Return a digest of each scan of a split's participants: of its participant, session, label and file name, but no folder.

    The participant is written as the split writes it, so that a table with another spelling has the same digests.

    Parameters
    ----------
    split : whose scans count; rows of others do not.
    """
    known = {participants.form(who): who for part in split.parts.values() for who in part}
    named = [(known.get(participants.form(scan.participant)), scan) for scan in participants.scans]
    rows = [(who, scan.session, scan.label, scan.path.name) for who, scan in named if who is not None]
    return tuple(hashlib.sha256(repr(row).encode(errors="surrogateescape")).hexdigest()[:12] for row in rows)
