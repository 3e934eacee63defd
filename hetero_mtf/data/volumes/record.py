"""VolumeRecord: what is stored of the volumes a network was trained on: how they were read, and which participants were in which part."""

from __future__ import annotations

import dataclasses
import hashlib
import os

from hetero_mtf.data.volumes.augmentation import Augmentation
from hetero_mtf.data.volumes.cohort.participants import Participants
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
        return next((name for name in PARTS if participant in getattr(self.split, name)), ELSEWHERE)


def scan_digests(participants: Participants, split: Split) -> tuple[str, ...]:
    """Return a digest of each scan of a split's participants: of its participant, session, label and file name, but no folder.

    Parameters
    ----------
    split : whose scans count; rows of others do not.
    """
    known = {participant for part in split.parts.values() for participant in part}
    rows = [(scan.participant, scan.session, scan.label, scan.path.name) for scan in participants.scans if scan.participant in known]
    return tuple(hashlib.sha256(repr(row).encode(errors="surrogateescape")).hexdigest()[:12] for row in rows)
