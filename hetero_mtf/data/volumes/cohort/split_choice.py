"""How participants come into their parts: by a file, by a hold-out, as one of several folds, or as they were before."""

from __future__ import annotations

import dataclasses
import os
import pathlib

from hetero_mtf.data.volumes.cohort.fault import CohortFault, report
from hetero_mtf.data.volumes.cohort.leaks import leak_line, leaks
from hetero_mtf.data.volumes.cohort.participants import Participants
from hetero_mtf.data.volumes.cohort.split_check import check_split, examine_split, respelt, shared_participants
from hetero_mtf.data.volumes.cohort.splits import Split, hold_out_split, k_fold_splits
from hetero_mtf.errors import DataError, HeteroError

TEST, SEED = 0.2, 0


@dataclasses.dataclass(frozen=True)
class SplitChoice:
    """Where a split comes from; None stands for an option that was not given.

    Parameters
    ----------
    file : the file that holds it; where there is none yet, the split that is drawn is written there.
    test, validation : part of the participants of each class for testing (a fifth), and for validation (none).
    folds, fold : of how many folds which is tested on, from 1, instead of a hold-out.
    seed : of the draw (0).

    Raises
    ------
    DataError
        If the choices do not go together; all faults at once.
    """

    file: str | None = None
    test: float | None = None
    validation: float | None = None
    folds: int | None = None
    fold: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        faults = []
        if (self.folds is None) != (self.fold is None):
            faults.append("one of folds and fold is missing; --folds 5 --fold 1 tests on the first of five folds")
        elif self.folds is not None and self.fold is not None and not 1 <= self.fold <= self.folds:
            faults.append(f"fold {self.fold} of {self.folds} was asked for; they count from 1")
        if self.folds is not None and self.test is not None:
            faults.append("folds decide how many are tested on; leave out --test-fraction")
        test, validation = TEST if self.test is None else self.test, self.validation or 0.0
        if self.folds is None and not (0 < test < 1 and 0 <= validation < 1 - test):
            faults.append(f"a test part of {test:g} and a validation part of {validation:g} leave nobody to train on or to test on")
        if faults:
            raise DataError(f"the split cannot be drawn: {'; '.join(faults)}", "see hetero-mtf train --help")

    @property
    def is_there(self) -> bool:
        """Whether the file exists, so that nothing is drawn."""
        return self.file is not None and os.path.lexists(self.file)

    def faults(self, participants: Participants, usable: Participants | None = None) -> list[str]:
        """Return what is wrong with the split in the file, leaks included; nothing where it is still to be drawn.

        Parameters
        ----------
        participants : the whole table.
        usable : the scans that can be read; None: all.
        """
        if self.file is None or not self.is_there:
            return []
        name = pathlib.Path(self.file).name
        try:
            split, file_faults = examine_split(self.file, participants, usable)
        except HeteroError as fault:
            return [str(fault)]
        texts = [*(fault.text for fault in file_faults), *self._differences(split), *copied(split, participants)]
        return [text if text.startswith(name) else f"{name}: {text}" for text in texts]

    def split(self, participants: Participants, usable: Participants) -> Split:
        """Return the split, of participants with scans that can be used; one that is drawn is written to the file.

        Parameters
        ----------
        participants : the whole table.
        usable : the scans that can be read.

        Raises
        ------
        DataError
            If the file's split has faults, there are too few participants to draw one, or something leaks.
        HeteroError
            If the file cannot be written.
        """
        if self.file is not None and self.is_there:
            faults = self.faults(participants, usable)
            if faults:
                raise report(self.file, [CohortFault(text) for text in faults], "fix the file, or take it away and let the split be drawn")
            return examine_split(self.file, participants, usable)[0].within(usable.ids)
        drawn = self._drawn(usable)
        if leaks(drawn, usable):
            raise DataError(f"{leak_line(drawn, usable)}", f"leave out one of the rows in {usable.path}, or write one participant in both")
        if self.file is not None:
            drawn.save(self.file)
        return drawn

    def _drawn(self, participants: Participants) -> Split:
        seed, validation = SEED if self.seed is None else self.seed, self.validation or 0.0
        if self.folds is None or self.fold is None:
            return hold_out_split(participants, TEST if self.test is None else self.test, validation, seed)
        return k_fold_splits(participants, self.folds, validation, seed)[self.fold - 1]

    def _differences(self, split: Split) -> list[str]:
        """Return what was asked for and is not so in the file; the parts' sizes may be another table's."""
        asked = {"seed": self.seed, "fold": self.fold, "folds": self.folds}
        return [
            f"its {name} is {getattr(split, name)} and {value} was asked for; leave the option out, or name another file"
            for name, value in asked.items()
            if value is not None and value != getattr(split, name)
        ]


@dataclasses.dataclass(frozen=True)
class KnownSplit:
    """A split that is known already, such as that of a trained network.

    Parameters
    ----------
    known : the split.
    origin : where it comes from, for messages.
    """

    known: Split
    origin: str

    def faults(self, participants: Participants, usable: Participants | None = None) -> list[str]:
        """Return what is wrong with the split, as `SplitChoice.faults`."""
        trained = [who for ids in self.known.parts.values() for who in ids]
        if not set(map(participants.form, trained)) & set(participants.spellings):
            wrong = f"the split of {self.origin} is of other participants than those of {participants.path}"
            return [f"{wrong}; take the table of the training, or hetero-mtf predict for another one"]
        written = {scan.participant for scan in participants.scans}
        pairs = respelt((who for who in trained if who not in written), participants)
        remedy = "write them there as in the training, or take them as different people with --ids exact (ids='exact')"
        respellings = [f"the table {participants.path} writes {pairs}; {remedy}"] if pairs else []
        checked = _as_written(self.known, participants)
        texts = [*(fault.text for fault in check_split(checked, participants, usable)), *copied(checked, participants)]
        return [f"the split of {self.origin}: {text}" for text in [*respellings, *texts]]

    def split(self, participants: Participants, usable: Participants) -> Split:
        """Return the split of the participants with scans that can be used, as `SplitChoice.split`."""
        return self.known.within(usable.ids)


def _as_written(split: Split, participants: Participants) -> Split:
    """Return a split with the ids of a table where they are written otherwise there."""
    spellings, written = participants.spellings, {scan.participant for scan in participants.scans}

    def own(ids: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(who if who in written else spellings.get(participants.form(who), who) for who in ids)

    return dataclasses.replace(split, train=own(split.train), test=own(split.test), validation=own(split.validation))


def copied(split: Split, participants: Participants) -> list[str]:
    """Return which scans of different parts are copies of each other, as faults."""
    shared = set(shared_participants(split, participants.comparison))
    return [f"{text}; leave out one of the rows" for text in leaks(split, participants) if text not in shared]
