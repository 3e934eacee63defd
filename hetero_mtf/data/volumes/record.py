"""VolumeRecord: what has to be kept of the volumes a network was trained on, to read others alike and to know who was trained on."""

from __future__ import annotations

import dataclasses
import os

from hetero_mtf.data.volumes.augmentation import Augmentation
from hetero_mtf.data.volumes.participants import Participants
from hetero_mtf.data.volumes.preprocessing import Preprocessing
from hetero_mtf.data.volumes.splits import PARTS, Split

ELSEWHERE = "none"


@dataclasses.dataclass(frozen=True)
class VolumeRecord:
    """The volumes of a training.

    Parameters
    ----------
    table : absolute path of the table.
    label : name of its column of labels.
    classes : the labels in their order; a label's class number is its place.
    preprocessing : from files to arrays.
    augmentation : of the training part.
    split : who was trained on, chosen by and tested on.
    class_weight : (classes,) how much a scan of each class counts in the loss; () for 1 each.
    """

    table: str
    label: str
    classes: tuple[str, ...]
    preprocessing: Preprocessing
    augmentation: Augmentation
    split: Split
    class_weight: tuple[float, ...] = ()

    def is_of(self, participants: Participants) -> bool:
        """Return whether a table is the one that was trained with, by its path.

        Parameters
        ----------
        participants : the table.
        """
        return os.path.realpath(participants.path) == os.path.realpath(self.table)

    def part(self, participant: str) -> str:
        """Return the part a participant of the table was in, "none" if in no part.

        Parameters
        ----------
        participant : as the table writes it.
        """
        return next((name for name in PARTS if participant in getattr(self.split, name)), ELSEWHERE)
