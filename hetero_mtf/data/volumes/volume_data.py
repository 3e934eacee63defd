"""VolumeData: the scans of a table as data to train on and test with, read when they are needed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from hetero_mtf.data.array import Array
from hetero_mtf.data.labelled import LabelledData
from hetero_mtf.data.volumes.augmentation import Augmentation
from hetero_mtf.data.volumes.cache import VolumeCache
from hetero_mtf.data.volumes.class_weight import ClassWeight, weights_text
from hetero_mtf.data.volumes.cohort.cohort_options import WORKERS, CohortOptions
from hetero_mtf.data.volumes.cohort.fold_choice import FoldChoice
from hetero_mtf.data.volumes.cohort.leaks import leak_line
from hetero_mtf.data.volumes.cohort.participants import Participants
from hetero_mtf.data.volumes.cohort.split_check import split_notes
from hetero_mtf.data.volumes.cohort.split_choice import KnownSplit, SplitChoice
from hetero_mtf.data.volumes.cohort.splits import Split
from hetero_mtf.data.volumes.cohort_check import Cohort, open_cohort
from hetero_mtf.data.volumes.volume_record import VolumeRecord, scan_digests
from hetero_mtf.data.volumes.volume_source import VolumeSource
from hetero_mtf.errors import DataError


@dataclasses.dataclass(frozen=True)
class VolumeData(LabelledData):
    """Scans in parts by participant.

    Parameters
    ----------
    name : what it was asked for by, such as "nifti:participants.tsv".
    classes : number of classes.
    participants : the scans that can be used.
    split : who is in which part.
    cache : gives the scans' arrays.
    augmentation : of the training part.
    log_lines : lines for the log, the leak check last.
    workers : threads that decode.
    dtype : "float32" or "float64", of the samples.
    class_weight : (classes,) how much a scan of each class counts in the loss of training; () for 1 each.
    """

    name: str
    classes: int
    participants: Participants
    split: Split
    cache: VolumeCache
    augmentation: Augmentation = Augmentation()
    log_lines: tuple[str, ...] = ()
    workers: int = WORKERS
    dtype: str = "float32"
    class_weight: tuple[float, ...] = ()

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of a sample: voxels along each axis, and one channel."""
        return (*self.cache.steps.shape, 1)

    @property
    def label_shape(self) -> tuple[int, ...]:
        """Shape of a label: a class number's."""
        return ()

    @property
    def counts(self) -> dict[str, int]:
        """Scans of each part."""
        return {name: len(self.participants.part(ids).scans) for name, ids in self.split.parts.items()}

    @property
    def lines(self) -> tuple[str, ...]:
        """Lines for the log."""
        return self.log_lines

    @property
    def record(self) -> VolumeRecord:
        """What has to be kept with a network that is trained on them."""
        people = self.participants
        how = (self.cache.steps, self.augmentation, self.split, self.class_weight, scan_digests(people, self.split))
        return VolumeRecord(people.path.name, people.label_column, people.classes, *how, people.centre_column, people.comparison)

    def part(self, name: str) -> Participants:
        """Return the scans of a part.

        Parameters
        ----------
        name : "train", "validation" or "test".

        Raises
        ------
        DataError
            If the split has no such part.
        """
        parts = self.split.parts
        if name not in parts:
            raise DataError(f"the split has no {name} part, it has {', '.join(parts)}", "name one of them")
        return self.participants.part(parts[name])

    def training(self, batch_size: int, seed: int = 0) -> VolumeSource:
        """Return batches to train on, as `LabelledData.training`."""
        return VolumeSource(
            self.part("train"),
            self.cache,
            batch_size,
            seed=seed,
            augmentation=self.augmentation,
            class_weight=dict(enumerate(self.class_weight)) or None,
            workers=self.workers,
            dtype=self.dtype,
        )

    def testing(self, batch_size: int, part: str = "test") -> VolumeSource:
        """Return batches of a part, as `LabelledData.testing`."""
        return VolumeSource(self.part(part), self.cache, batch_size, shuffle=False, workers=self.workers, dtype=self.dtype)

    def first(self, count: int) -> tuple[Array, Array]:
        """Return the first scans to train on, as `LabelledData.first`."""
        chosen = self.part("train")
        chosen = dataclasses.replace(chosen, scans=chosen.scans[:count])
        return np.stack([self.cache.get(scan)[..., None] for scan in chosen.scans]).astype(self.dtype), chosen.y


@dataclasses.dataclass(frozen=True)
class VolumeRequest:
    """What is asked of the volumes of a table.

    Parameters
    ----------
    table : path of the table.
    cache : where volumes come from and are kept.
    cohort : how the table is taken.
    choice : where the split comes from.
    augmentation : of the training part.
    dtype : "float32" or "float64".
    class_weight : how much scans count in the loss.
    """

    table: str
    cache: VolumeCache
    cohort: CohortOptions
    choice: SplitChoice | KnownSplit | FoldChoice
    augmentation: Augmentation = Augmentation()
    dtype: str = "float32"
    class_weight: ClassWeight = ClassWeight()


def open_volumes(request: VolumeRequest, notes: Sequence[str] = (), advance: Callable[[str], None] | None = None) -> VolumeData:
    """Return the scans of a table in parts, after every file was read once.

    Parameters
    ----------
    request : what is asked for.
    notes : further lines for the log.
    advance : called with the key of every scan that was looked at.

    Raises
    ------
    DataError
        With every fault of the table, the files and the split's file, one a line; or if no split can be drawn.
    """
    choice, everybody = request.choice, list[Participants]()

    def more_faults(participants: Participants) -> list[str]:
        everybody.append(participants)
        return [*choice.faults(participants), *request.class_weight.faults(participants.classes)]

    cohort = open_cohort(request.table, request.cache, request.cohort, more_faults, advance)
    split = choice.split(everybody[0], cohort.participants)
    weights = request.class_weight.numbers(cohort.participants.part(split.train))
    checked = (*split_notes(split, cohort.participants), leak_line(split, cohort.participants))
    log_lines = (*notes, *_lines(cohort, request, weights), *checked)
    classes, how = len(cohort.participants.classes), (request.cohort.workers, request.dtype, weights)
    return VolumeData(f"nifti:{request.table}", classes, cohort.participants, split, request.cache, request.augmentation, log_lines, *how)


def _lines(cohort: Cohort, request: VolumeRequest, weights: tuple[float, ...]) -> tuple[str, ...]:
    trouble = [request.cache.trouble] if request.cache.trouble else []
    steps = [f"scans: {line}" for line in request.cache.steps.lines()]
    changes = [f"augmentation: {line}" for line in request.augmentation.lines()]
    weighed = [f"weights in the loss: {weights_text(weights, cohort.participants.classes)}"] if weights else []
    return (*cohort.lines(), *trouble, *steps, *changes, *weighed)
