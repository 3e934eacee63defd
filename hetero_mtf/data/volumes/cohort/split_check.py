"""Checks splits, drawn or manual: every fault at once."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence

from hetero_mtf.data.volumes.cohort.fault import CohortFault, report
from hetero_mtf.data.volumes.cohort.participants import Participants
from hetero_mtf.data.volumes.cohort.spelling import ALIKE, participant_form
from hetero_mtf.data.volumes.cohort.splits import VERSION, Split, participant_labels
from hetero_mtf.json_file import read_json
from hetero_mtf.json_records import Fault as Entry
from hetero_mtf.json_records import read_fields
from hetero_mtf.units import list_text

_NAMED = 5  # participants in a message


def read_split(path: str | os.PathLike[str], participants: Participants, usable: Participants | None = None) -> Split:
    """Return the split in a JSON file, as `Split.save` wrote it or as it was written by hand.

    By hand: {"kind": "split", "version": 1, "train": ["sub-01", ...], "test": [...]}, and "validation" where wanted.

    Parameters
    ----------
    path : the file.
    participants, usable : as for `check_split`.

    Raises
    ------
    DataError
        With every fault of the file.
    """
    split, faults = examine_split(path, participants, usable)
    if faults:
        raise report(os.fspath(path), faults, "fix the file, or take it away and let the split be drawn")
    return split


def examine_split(
    path: str | os.PathLike[str], participants: Participants, usable: Participants | None = None
) -> tuple[Split, list[CohortFault]]:
    """Return the split in a JSON file and its faults.

    Parameters
    ----------
    path, participants, usable : as for `read_split`.

    Raises
    ------
    HeteroError
        If the file is missing, not JSON, or no split of this version.
    """
    document = read_json(path, kind="split", version=VERSION)
    entries: list[Entry] = []
    split = Split(**read_fields(Split, document, "", entries, frozenset({"kind", "version"})))
    faults = [CohortFault(f"{pathlib.Path(path).name}: {entry}; correct it") for entry in entries]
    unread = {entry.path.partition("[")[0] for entry in entries}
    return split, [*faults, *check_split(split, participants, usable, unread=unread)]


def check_split(
    split: Split, participants: Participants, usable: Participants | None = None, *, unread: Iterable[str] = ()
) -> list[CohortFault]:
    """Return everything that is wrong with a split of a cohort; `split_notes` returns what is no fault.

    Parameters
    ----------
    participants : the whole table.
    usable : the scans that can be read; None: all.
    unread : parts that could not be read in full, and are not checked for what they lack.
    """
    complete_parts = {name: ids for name, ids in split.parts.items() if name not in set(unread)}
    comparison = participants.comparison
    repeated = {name: _repeated(ids, comparison) for name, ids in split.parts.items()}
    faults = [CohortFault(f"{name} part: {_several(ids)} named twice; name each once") for name, ids in repeated.items() if ids]
    shared = shared_participants(split, comparison)
    faults += [CohortFault(f"{text}; keep each in one part, or what is tested was trained on") for text in shared]
    known = {scan.participant for scan in participants.scans}
    for name, ids in split.parts.items():
        named = [i for i in dict.fromkeys(ids) if i or name in complete_parts]  # "" stands for what could not be read
        unknown = [i for i in named if i not in known]
        wrong = f"{name} part: {_several(unknown)} not in the table {participants.path}"
        faults += [CohortFault(f"{wrong}; {_spelt(unknown, participants)}")] if unknown else []
    for name, ids in complete_parts.items():
        faults += _absent(name, ids, usable or participants)
    return faults


def split_notes(split: Split, participants: Participants) -> list[str]:
    """Return notes on a split: participants in no part, and how those with several labels were counted."""
    placed = {participants.form(i) for ids in split.parts.values() for i in ids}
    left = [i for form, i in participants.spellings.items() if form not in placed]
    notes = [f"{len(left)} of {len(participants.ids)} participants are in no part and left out: {_some(left)}"] if left else []
    several = [i for i, labels in participant_labels(participants).items() if len(labels) > 1]
    if several:
        who = "1 participant has sessions of different labels and counts" if len(several) == 1 else ""
        who = who or f"{len(several)} participants have sessions of different labels and count"
        notes.append(f"{who} as of the rarest: {_some(several)}")
    return notes


def shared_participants(split: Split, ids: str = ALIKE) -> list[str]:
    """Return for every two parts the participants that are in both, as text; none where nothing leaks.

    Parameters
    ----------
    ids : how participants are compared, "alike" or "exact".
    """
    parts = [(name, _by_form(who, ids)) for name, who in split.parts.items()]
    texts = []
    for at, (first, ones) in enumerate(parts):
        for second, others in parts[at + 1 :]:
            both = sorted(_written([*ones[form], *others[form]]) for form in ones if form in others)
            texts += [f"{_several(both)} in the {first} part and in the {second} part"] if both else []
    return texts


def _by_form(who: Iterable[str], ids: str) -> dict[str, list[str]]:
    """Return what all spellings of a participant share -> those in which it is named."""
    spellings: dict[str, list[str]] = {}
    for participant in who:
        spellings.setdefault(participant_form(participant, ids), []).append(participant)
    return spellings


def _repeated(who: Sequence[str], ids: str) -> list[str]:
    return [_written(spellings) for spellings in _by_form(who, ids).values() if len(spellings) > 1]


def _written(spellings: Iterable[str]) -> str:
    """Return a participant as it is written first, with its other spellings behind it."""
    first, *others = dict.fromkeys(spellings)
    return f"{first} (also written {', '.join(others)})" if others else first


def _absent(name: str, ids: Sequence[str], usable: Participants) -> Iterator[CohortFault]:
    """Yield what a part lacks: participants, or those of a class."""
    if not ids:
        yield CohortFault(f"{name} part: it is empty; name participants")
        return
    present = {scan.label for scan in usable.part(ids).scans}
    for label in usable.classes:
        if label not in present:
            yield CohortFault(f"{name} part: no participant with a usable scan is of class {label!r}; put some there")


def _spelt(unknown: Sequence[str], participants: Participants) -> str:
    """Return what to do about unknown ids: the table may write them in another spelling."""
    pairs = respelt(unknown, participants)
    return f"write ids as the table does, {pairs}" if pairs else "correct the ids, or take them out"


def respelt(who: Iterable[str], participants: Participants) -> str:
    """Return how a table writes participants that are written otherwise elsewhere, such as "'sub-03' for '3'"; "" where it has none.

    Parameters
    ----------
    who : participants that the table does not write so.
    """
    spellings = participants.spellings
    pairs = [(spellings.get(participants.form(one)), one) for one in who if one]
    return list_text([f"{own!r} for {one!r}" for own, one in pairs if own is not None], _NAMED)


def _several(ids: Sequence[str]) -> str:
    return f"{_some(ids)} {'is' if len(ids) == 1 else 'are'}"


def _some(ids: Sequence[str]) -> str:
    return list_text([i or "''" for i in ids], _NAMED)
