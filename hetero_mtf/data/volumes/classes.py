"""Classes: the order of labels, and what is wrong with how they are spread."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence

from hetero_mtf.data.volumes.fault import Fault

_NAMED = 5  # labels in a message
LEAST_PARTICIPANTS = 2  # one to train on, one to test on


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


def alike_faults(classes: Sequence[str]) -> list[Fault]:
    """Return a fault for labels that differ in writing only: in capitals, or as 1 and 1.0.

    Parameters
    ----------
    classes : the different labels.
    """
    groups = collections.defaultdict(list)
    for label in classes:
        number = _number(label)
        groups[label.casefold() if number is None else number].append(label)
    alike = [group for group in groups.values() if len(group) > 1]
    return [Fault(f"labels {', '.join(map(repr, group))} differ in writing only; write them alike") for group in alike]


def spread_faults(
    column: str, classes: Sequence[str], labels: Mapping[str, Sequence[str]], usable: Mapping[str, Sequence[str]]
) -> list[Fault]:
    """Return what keeps a classifier from being trained and tested on these classes.

    Parameters
    ----------
    column : the column of the labels.
    classes : the classes there should be.
    labels : class -> participants with that label, each once, whether their scans can be used or not.
    usable : the same of those with a scan that can be used.
    """
    if not classes:
        return [Fault(f"{column}: no scan has a label; write them")]
    faults = []
    if len(classes) == 1:
        faults.append(Fault(f"{column}: every label is {classes[0]!r} and a classifier needs two classes; add scans of another"))
    empty = [name for name in classes if not usable.get(name)]
    faults += [_empty_fault(column, name, len(labels.get(name, ()))) for name in empty]
    single = [name for name in classes if len(usable.get(name, ())) == 1]
    shown = ", ".join(f"{name!r} (of {usable[name][0]})" for name in single[:_NAMED])
    more = f" and {len(single) - _NAMED} more" if len(single) > _NAMED else ""
    if single:
        what = f"{column}: label {shown}{more} occurs" if len(single) == 1 else f"{column}: labels {shown}{more} occur"
        wrong = f"{what} with one usable participant only, and training and testing need {LEAST_PARTICIPANTS}"
        faults.append(Fault(f"{wrong}; correct a misspelt label, add participants, or take the row out of the table"))
    return faults


def _empty_fault(column: str, name: str, lost: int) -> Fault:
    why = "no row has it" if not lost else f"its {lost} participant{'s have' if lost > 1 else ' has'} no usable scan"
    return Fault(f"{column}: class {name!r} is empty, {why}; mend its scans, or take the class out of the table")


def _number(label: str) -> float | None:
    try:
        value = float(label)
    except ValueError:
        return None
    return value if value == value else None
