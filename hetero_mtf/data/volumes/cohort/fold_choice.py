"""FoldChoice: all folds of a cohort, each of which is tested on once."""

from __future__ import annotations

import dataclasses

from hetero_mtf.data.volumes.cohort.leaks import leak_line, leaks
from hetero_mtf.data.volumes.cohort.participants import Participants
from hetero_mtf.data.volumes.cohort.split_choice import SEED
from hetero_mtf.data.volumes.cohort.splits import Split, k_fold_splits
from hetero_mtf.errors import DataError


@dataclasses.dataclass(frozen=True)
class FoldChoice:
    """How the participants are divided into folds; None stands for an option that was not given.

    Parameters
    ----------
    folds : how many, at least two.
    validation : part of the participants of each class, of those not tested on, for validation (none).
    seed : of the draw (0).
    """

    folds: int
    validation: float | None = None
    seed: int | None = None

    def faults(self, participants: Participants, usable: Participants | None = None) -> list[str]:
        """Return what is wrong with splits in files, as `SplitChoice.faults`: nothing, since all are drawn."""
        return []

    def split(self, participants: Participants, usable: Participants) -> Split:
        """Return the split that tests on the first fold, after all were checked, as `SplitChoice.split`."""
        return self.splits(usable)[0]

    def splits(self, usable: Participants) -> tuple[Split, ...]:
        """Return the split of each fold; every participant is in the test part of exactly one.

        Parameters
        ----------
        usable : the scans that can be read.

        Raises
        ------
        DataError
            If there are too few participants for so many folds, or something leaks in one of them.
        """
        drawn = k_fold_splits(usable, self.folds, self.validation or 0.0, SEED if self.seed is None else self.seed)
        for split in drawn:
            if leaks(split, usable):
                wrong = f"fold {split.fold} of {split.folds}: {leak_line(split, usable)}"
                raise DataError(wrong, f"leave out one of the rows in {usable.path}, or write one participant in both")
        return drawn
