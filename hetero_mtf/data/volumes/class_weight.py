"""ClassWeight: how much a scan counts in the loss, by its class."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Sequence

from hetero_mtf.data.volumes.cohort.participants import Participants
from hetero_mtf.errors import DataError


@dataclasses.dataclass(frozen=True)
class ClassWeight:
    """Weights of classes in the loss of training; in tests all scans count alike.

    Balanced, n scans of k classes, n_c of them of class c, weigh n / (k n_c) each: every class counts as much as any other, and a scan
    1 in the mean, so that the learning rate keeps its meaning.

    Parameters
    ----------
    weights : names of classes with their weights; a class that is not named has 1.
    balanced : whether they follow from the scans that are trained on, instead.

    Raises
    ------
    DataError
        If both are wanted, a class is named twice, or a weight is no positive number.

    Examples
    --------
    >>> ClassWeight((("AD", 2.0),)).faults(("AD", "NC")), ClassWeight((("MCI", 2.0),)).faults(("AD", "NC"))
    ([], ['there is a weight of class MCI and no such class, but AD, NC; write it as the table does'])
    """

    weights: tuple[tuple[str, float], ...] = ()
    balanced: bool = False

    def __post_init__(self) -> None:
        names = [name for name, _ in self.weights]
        twice = sorted({name for name in names if names.count(name) > 1})
        wrong = [f"{name}={weight:g}" for name, weight in self.weights if not 0 < weight < math.inf]
        if self.balanced and self.weights:
            raise DataError(f"class weights are to be balanced and to be {self._text()}", "give one or the other")
        if twice:
            raise DataError(f"class {', '.join(twice)} has two weights", "give one")
        if wrong:
            raise DataError(
                f"class weights {', '.join(wrong)} are no positive numbers", "take scans that are not to count out of the table"
            )

    def faults(self, classes: Sequence[str]) -> list[str]:
        """Return what keeps the weights from being those of some classes.

        Parameters
        ----------
        classes : their names.
        """
        known = ", ".join(classes)
        strange = [name for name, _ in self.weights if name not in classes]
        return [f"there is a weight of class {name} and no such class, but {known}; write it as the table does" for name in strange]

    def numbers(self, participants: Participants) -> tuple[float, ...]:
        """Return the weight of each class by its number; nothing where all are 1 as no weights are wanted.

        Parameters
        ----------
        participants : the scans that are trained on.

        Raises
        ------
        DataError
            If weights are to be balanced and a class has no scan.
        """
        if self.balanced:
            counts = collections.Counter(scan.label for scan in participants.scans)
            none = [name for name in participants.classes if not counts[name]]
            if none:
                raise DataError(f"class {', '.join(none)} has no scan to train on and cannot be balanced", "give it one, or give weights")
            mean_count = len(participants.scans) / len(participants.classes)
            return tuple(mean_count / counts[name] for name in participants.classes)
        weights = dict(self.weights)
        return tuple(weights.get(name, 1.0) for name in participants.classes) if weights else ()

    def _text(self) -> str:
        return ", ".join(f"{name}={weight:g}" for name, weight in self.weights)


def weights_text(weights: Sequence[float], classes: Sequence[str]) -> str:
    """Return weights for a log, such as "0.75 AD, 1.5 NC".

    Parameters
    ----------
    weights, classes : as many numbers as names; none of the former stands for 1 each.
    """
    return ", ".join(f"{weight:.4g} {name}" for weight, name in zip(weights or (1.0,) * len(classes), classes))
