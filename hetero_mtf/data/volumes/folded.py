"""FoldedVolumes: the scans of a table of which each fold is tested on once."""

from __future__ import annotations

import dataclasses

from hetero_mtf.data.volumes.class_weight import ClassWeight
from hetero_mtf.data.volumes.cohort.fold_choice import FoldChoice
from hetero_mtf.data.volumes.cohort.leaks import leak_line
from hetero_mtf.data.volumes.cohort.splits import Split
from hetero_mtf.data.volumes.volume_data import VolumeData


@dataclasses.dataclass(frozen=True)
class FoldedVolumes(VolumeData):
    """Scans in folds; its own parts are those of the first fold.

    Parameters
    ----------
    splits : (folds,) who is in which part.
    weights : (folds,) the class weights of each fold, as they may follow from who is trained on.
    """

    splits: tuple[Split, ...] = ()
    weights: tuple[tuple[float, ...], ...] = ()

    def fold(self, number: int) -> VolumeData:
        """Return the scans in the parts of a fold.

        Parameters
        ----------
        number : the fold that is tested on, from 1.
        """
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(VolumeData)}
        return VolumeData(**{**fields, "split": self.splits[number - 1], "class_weight": self.weights[number - 1]})


def folded(volumes: VolumeData, choice: FoldChoice, class_weight: ClassWeight) -> FoldedVolumes:
    """Return volumes that were opened for the first fold with all folds.

    Parameters
    ----------
    volumes : the scans, as `open_volumes` returns them for the choice.
    choice : how they are divided.
    class_weight : how much scans count in the loss.

    Raises
    ------
    DataError
        If the weights are to be balanced and a fold trains on no scan of a class.
    """
    people = volumes.participants
    splits = choice.splits(people)
    weights = tuple(class_weight.numbers(people.part(split.train)) for split in splits)
    lines = [f"fold {split.fold} of {split.folds}: {leak_line(split, people)}" for split in splits]
    fields = {field.name: getattr(volumes, field.name) for field in dataclasses.fields(VolumeData)}
    return FoldedVolumes(**{**fields, "log_lines": (*volumes.log_lines[:-1], *lines)}, splits=splits, weights=weights)
