"""Splits: which participants are trained on, chosen by and tested on; all sessions of one are in the same part."""

from __future__ import annotations

import collections
import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from hetero_mtf.data.volumes.cohort.participants import Participants
from hetero_mtf.data.volumes.cohort.spelling import cell_text
from hetero_mtf.errors import DataError
from hetero_mtf.json_file import write_json

VERSION = 1
PARTS = ("train", "validation", "test")


@dataclasses.dataclass(frozen=True)
class Split:
    """Participants in parts that no two share.

    Parameters
    ----------
    train, validation, test : ids as the table writes them, in the form of `cell_text`; without a validation part that one is empty.
    seed : of the draw; None for a manual split.
    fold, folds : of k folds the one that is tested on, from 1, and k; both None for a hold-out.
    """

    train: tuple[str, ...]
    test: tuple[str, ...]
    validation: tuple[str, ...] = ()
    seed: int | None = None
    fold: int | None = None
    folds: int | None = None

    def __post_init__(self) -> None:
        for name in PARTS:
            object.__setattr__(self, name, tuple(map(cell_text, getattr(self, name))))  # as the ids of a table are read

    @property
    def parts(self) -> dict[str, tuple[str, ...]]:
        """The parts by name; an empty validation part is left out."""
        return {name: getattr(self, name) for name in PARTS if name != "validation" or self.validation}

    def within(self, ids: Iterable[str]) -> Split:
        """Return the split without the participants that are not among `ids`, such as those whose scans are all broken.

        Parameters
        ----------
        ids : participants that stay.
        """
        staying = frozenset(ids)
        train, test, validation = (tuple(i for i in part if i in staying) for part in (self.train, self.test, self.validation))
        return dataclasses.replace(self, train=train, test=test, validation=validation)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the split to a JSON file.

        Parameters
        ----------
        path : file to write or replace.

        Raises
        ------
        HeteroError
            If it cannot be written.
        """
        write_json(path, {"kind": "split", "version": VERSION, **dataclasses.asdict(self)})


def participant_labels(participants: Participants) -> dict[str, tuple[str, ...]]:
    """Return the labels of each participant that has one, the one with the fewest participants first; by the ids of `Participants.ids`."""
    by_participant: dict[str, dict[str, None]] = {}
    spellings = participants.spellings
    for scan in participants.scans:
        if scan.label in participants.classes:
            by_participant.setdefault(spellings[participants.form(scan.participant)], {})[scan.label] = None
    counts = collections.Counter(label for labels in by_participant.values() for label in labels)
    return {i: tuple(sorted(labels, key=lambda label: (counts[label], label))) for i, labels in by_participant.items()}


def hold_out_split(participants: Participants, test: float = 0.2, validation: float = 0.0, seed: int = 0) -> Split:
    """Return a split that holds out a part of each class's participants.

    A participant with sessions of different labels counts as of the rarest of them. The draw does not depend on the table's order.

    Parameters
    ----------
    participants : the table; participants without a label are in no part.
    test, validation : part of the participants of each class, rounded, at least one; a validation of 0 leaves that part out.
    seed : of the draw.

    Raises
    ------
    DataError
        If the parts do not leave anybody to train on, or a class has fewer participants than there are parts.
    """
    _check_fractions(test, validation)
    strata = _strata(participants)
    needed = 3 if validation else 2
    _check_counts(strata, needed, f"{needed} parts, which need {needed}")
    rest, tested = _drawn(strata, test, seed, needed - 1)
    trained, chosen = _drawn(rest, validation, seed, full_strata=strata) if validation else (rest, {})
    return Split(_ids(trained), _ids(tested), _ids(chosen), seed)


def k_fold_splits(participants: Participants, folds: int = 5, validation: float = 0.0, seed: int = 0) -> tuple[Split, ...]:
    """Return k splits; every participant is in the test part of one of them, and each class is spread evenly over the folds.

    Parameters
    ----------
    participants : as for `hold_out_split`.
    folds : k, at least 2.
    validation : part of the participants of each class, of those not tested on, that the validation part gets.
    seed : of the draw.

    Raises
    ------
    DataError
        If there are fewer folds than two, a class has fewer participants than folds, or none would be left to train on.
    """
    from sklearn.model_selection import StratifiedKFold  # takes seconds to import, which a split that is read does without

    if folds < 2:
        raise DataError(f"{folds} folds are too few: one is tested on and another trained on", "ask for 2 at least")
    _check_fractions(1.0 / folds, validation)
    strata = _strata(participants)
    least = 4 if validation and folds == 2 else folds  # a fold of 2 leaves 2 of 4, one for each part
    _check_counts(strata, least, f"{folds} folds{' with a validation part' if validation else ''}, which need {least}")
    ids, labels = _columns(strata)
    drawn = StratifiedKFold(folds, shuffle=True, random_state=seed).split(ids, labels)
    return tuple(_fold(strata, frozenset(ids[i] for i in tested), validation, (seed, n, folds)) for n, (_, tested) in enumerate(drawn, 1))


def _fold(strata: Mapping[str, list[str]], tested: frozenset[str], validation: float, numbers: tuple[int, int, int]) -> Split:
    seed, fold, folds = numbers
    rest = {label: [i for i in members if i not in tested] for label, members in strata.items()}
    trained, chosen = _drawn(rest, validation, int(np.random.default_rng([seed, fold]).integers(2**31))) if validation else (rest, {})
    return Split(_ids(trained), tuple(sorted(tested)), _ids(chosen), seed, fold, folds)


def _drawn(
    strata: Mapping[str, list[str]], fraction: float, seed: int, least: int = 1, full_strata: Mapping[str, list[str]] | None = None
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return what stays of each class, `least` or more, and what is taken: a fraction of the class in `full_strata`, one at least."""
    from sklearn.model_selection import train_test_split  # as StratifiedKFold

    stay, drawn = {}, {}
    for label, members in strata.items():
        count = min(max(1, round(fraction * len((full_strata or strata)[label]))), len(members) - least)
        stay[label], drawn[label] = train_test_split(members, test_size=count, random_state=seed)
    return stay, drawn


def _strata(participants: Participants) -> dict[str, list[str]]:
    """Return class -> its participants in order of their ids; each in the class of its rarest label."""
    labels = participant_labels(participants)
    strata: dict[str, list[str]] = {label: [] for label in participants.classes}
    for who in sorted(labels):
        strata[labels[who][0]].append(who)
    return strata


def _columns(strata: Mapping[str, Sequence[str]]) -> tuple[list[str], list[str]]:
    pairs = sorted((who, label) for label, members in strata.items() for who in members)
    return [who for who, _ in pairs], [label for _, label in pairs]


def _ids(strata: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    return tuple(sorted(who for members in strata.values() for who in members))


def _check_fractions(test: float, validation: float) -> None:
    if not (0.0 < test < 1.0 and 0.0 <= validation < 1.0 and test + validation < 1.0):
        wrong = f"a test part of {test:g} and a validation part of {validation:g} leave nothing to train on or nothing to test on"
        raise DataError(wrong, "give parts above 0, such as 0.2, that are below 1 together")


def _check_counts(strata: Mapping[str, Sequence[str]], needed: int, why: str) -> None:
    few = [f"class {label!r} has {len(members)}" for label, members in strata.items() if len(members) < needed]
    if few or not strata:
        raise DataError(f"too few participants for {why} of each class: {', '.join(few) or 'no class'}", "add some, or ask for fewer parts")
