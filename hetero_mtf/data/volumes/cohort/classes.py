"""Classes: the order of labels, and what is wrong with how they are spread."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence

from hetero_mtf.data.volumes.cohort.fault import CohortFault
from hetero_mtf.data.volumes.cohort.spelling import comparison_form
from hetero_mtf.units import list_text

_NAMED = 5  # labels in a message
LEAST_PARTICIPANTS = 2  # one to train on, one to test on
_NUMERIC = 0.9  # part of the labels that are numbers in a column of measurements; the rest are such as 90+
_MANY, _FEW = 20, 10  # different numbers: more are measurements, and no more are classes unless most have one participant
_CROWD = 5  # participants a class, on average, between the two


def class_order(labels: Iterable[str]) -> tuple[str, ...]:
    """Return the different labels in order: by value where all are numbers, else by letter.

    Parameters
    ----------
    labels : as they are written.

    Examples
    --------
    >>> class_order(["NC", "AD", "NC"]), class_order(["10", "2", "10"])
    (('AD', 'NC'), ('2', '10'))
    """
    different = sorted(set(labels))
    numbers = [_number(label) for label in different]
    if any(number is None for number in numbers):
        return tuple(different)
    return tuple(label for _, label in sorted(zip(numbers, different)))


def alike_faults(classes: Sequence[str]) -> list[CohortFault]:
    """Return a fault for labels that differ in writing only: as `comparison_form`, such as in capitals, or as 1 and 1.0.

    Parameters
    ----------
    classes : the different labels.
    """
    groups = collections.defaultdict(list)
    for label in classes:
        number = _number(label)
        groups[comparison_form(label) if number is None else number].append(label)
    alike = [group for group in groups.values() if len(group) > 1]
    return [CohortFault(f"labels {', '.join(map(repr, group))} differ in writing only; write them alike") for group in alike]


def measurements_text(column: str, labels: Mapping[str, Sequence[str]]) -> str | None:
    """Return why labels are measurements such as ages and no classes, and what to do, or None where they may be classes.

    They are measurements if nearly all are numbers and either more than 20 differ, or more than 10 with fewer than 5 participants each
    on average, or most of three or more are of one participant only.

    Parameters
    ----------
    column : the column of the labels.
    labels : label -> participants with it, each once.

    Examples
    --------
    >>> measurements_text("grade", {"0": ["a", "b"], "1": ["c", "d"], "2": ["e"]}) is None
    True
    """
    numbers = [number for number in map(_number, labels) if number is not None]
    count, people = len(labels), len({who for members in labels.values() for who in members})
    alone = sum(len(members) == 1 for members in labels.values())
    spread = count > _MANY or (count > _FEW and people < _CROWD * count) or (count > 2 and 2 * alone > count)
    if not spread or len(numbers) < _NUMERIC * count:
        return None
    wrong = f"{column} has {count} different values of {people} participants, numbers from {min(numbers):g} to {max(numbers):g}"
    remedy = "name a column of categories with --label (label=...), or bin the values, such as 60-69, in a column of their own"
    return f"{wrong}, and regression is not supported; {remedy} (numbers that stand for categories: write them as words, such as site-7)"


def spread_faults(
    column: str, classes: Sequence[str], labels: Mapping[str, Sequence[str]], usable: Mapping[str, Sequence[str]]
) -> list[CohortFault]:
    """Return what keeps a classifier from being trained and tested on these classes.

    Parameters
    ----------
    column : the column of the labels.
    classes : the classes there should be.
    labels : class -> participants with that label, each once, whether their scans can be used or not.
    usable : the same of those with a scan that can be used.
    """
    if not classes:
        return [CohortFault(f"{column}: no scan has a label; write them")]
    faults = []
    if len(classes) == 1:
        faults.append(CohortFault(f"{column}: every label is {classes[0]!r} and a classifier needs two classes; add scans of another"))
    empty = [name for name in classes if not usable.get(name)]
    faults += [_empty_fault(column, name, len(labels.get(name, ()))) for name in empty]
    single = [name for name in classes if len(usable.get(name, ())) == 1]
    shown = list_text([f"{name!r} (of {usable[name][0]})" for name in single], _NAMED)
    if single:
        what = f"{column}: label {shown} occurs" if len(single) == 1 else f"{column}: labels {shown} occur"
        wrong = f"{what} with one usable participant only, and training and testing need {LEAST_PARTICIPANTS}"
        faults.append(CohortFault(f"{wrong}; correct a misspelt label, add participants, or take the row out of the table"))
    return faults


def _empty_fault(column: str, name: str, lost: int) -> CohortFault:
    why = "no row has it" if not lost else f"its {lost} participant{'s have' if lost > 1 else ' has'} no usable scan"
    return CohortFault(f"{column}: class {name!r} is empty, {why}; fix its scans, or take the class out of the table")


def _number(label: str) -> float | None:
    try:
        value = float(label)
    except ValueError:
        return None
    return value if value == value else None
