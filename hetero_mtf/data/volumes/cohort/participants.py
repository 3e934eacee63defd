"""Scan and Participants: who was scanned, with which diagnosis, and in which file; read from a BIDS-like participants.tsv."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from hetero_mtf.data.array import Array
from hetero_mtf.data.volumes.cohort.classes import alike_faults, class_order, measurements_text, spread_faults
from hetero_mtf.data.volumes.cohort.fault import CohortFault, report
from hetero_mtf.data.volumes.cohort.table import Row, TsvTable, read_table
from hetero_mtf.errors import DataError

PARTICIPANT, PATH, MASK = "participant_id", "path", "mask"
SESSIONS = ("session", "session_id")
CENTRES = ("site", "site_id")


@dataclasses.dataclass(frozen=True)
class Scan:
    """One row of the table: one volume file.

    Parameters
    ----------
    participant : as the table writes it, such as "sub-01" or "01".
    session : likewise, such as "ses-02", or None.
    label : the diagnosis, or None where it is not known.
    path : the volume's file.
    mask : the file of its mask, or None.
    line : line of the table, 0 where there is none.
    content : digest of what a network sees of it, "" where it was not read yet; scans are equal whatever it is.
    centre : the site where it was taken, as the table writes it, or None.
    """

    participant: str
    session: str | None
    label: str | None
    path: pathlib.Path
    mask: pathlib.Path | None = None
    line: int = 0
    content: str = dataclasses.field(default="", compare=False)
    centre: str | None = None

    @property
    def key(self) -> str:
        """Name of the scan, as BIDS writes it: "sub-01" or "sub-01_ses-02"."""
        subject = f"sub-{self.participant.removeprefix('sub-')}"
        return subject if self.session is None else f"{subject}_ses-{self.session.removeprefix('ses-')}"


@dataclasses.dataclass(frozen=True)
class Participants:
    """Scans and the classes of their labels.

    Parameters
    ----------
    path : the table.
    scans : in the table's order.
    label_column : name of the column of labels.
    classes : the labels' order; a label's class number is its place.
    session_column : name of the column of sessions, which outputs keep.
    centre_column : name of the column of sites, None where the table has none.
    """

    path: pathlib.Path
    scans: tuple[Scan, ...]
    label_column: str
    classes: tuple[str, ...]
    session_column: str = SESSIONS[0]
    centre_column: str | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """The participants, each once, in the table's order."""
        return tuple(dict.fromkeys(scan.participant for scan in self.scans))

    @property
    def y(self) -> Array:
        """(scans,) array of int64, class numbers.

        Raises
        ------
        DataError
            If a scan has no label, or one that is no class.
        """
        number = {name: at for at, name in enumerate(self.classes)}
        bad = [scan for scan in self.scans if scan.label not in number]
        if bad:
            examples = ", ".join(f"{scan.key} ({'no label' if scan.label is None else repr(scan.label)})" for scan in bad[:5])
            known = ", ".join(map(repr, self.classes)) or "none"
            wrong = f"{self.path}: {len(bad)} of {len(self.scans)} scans have no label among the classes {known}, such as {examples}"
            raise DataError(f"{wrong}; write the labels, or read the table without them")
        return np.array([number[scan.label] for scan in self.scans if scan.label is not None], np.int64)

    def part(self, participants: Iterable[str]) -> Participants:
        """Return the scans of some participants, with the same classes.

        Parameters
        ----------
        participants : as the table writes them.
        """
        chosen = frozenset(participants)
        return dataclasses.replace(self, scans=tuple(scan for scan in self.scans if scan.participant in chosen))

    def without(self, lines: Collection[int]) -> Participants:
        """Return all but the scans of some lines of the table.

        Parameters
        ----------
        lines : line numbers.
        """
        return dataclasses.replace(self, scans=tuple(scan for scan in self.scans if scan.line not in lines))


def read_participants(
    path: str | os.PathLike[str],
    label: str = "diagnosis",
    *,
    labelled: bool = True,
    classes: Sequence[str] | None = None,
    centre: str | None = None,
) -> Participants:
    """Return the scans that a table lists; their files are not looked at.

    The table has tab-separated columns `participant_id`, `path` (relative to the table) and the labels', and where wanted `session`
    (or `session_id`), `site` (or `site_id`) and `mask`. Empty cells and n/a stand for unknown.

    Parameters
    ----------
    path : the table.
    label : name of the column of labels.
    labelled : whether every scan must have a label; else it is taken where there is one.
    classes : the only labels allowed, in their order, as of a trained model; None takes those of the table.
    centre : name of the column of sites; None takes `site` or `site_id` where there is one.

    Raises
    ------
    DataError
        If the table cannot be read; or else with every fault of its rows and labels: cells that are missing, rows or files that
        occur twice, unknown labels, and, where the classes are the table's, fewer than two or one with fewer than two participants.
    """
    participants, faults = examine_table(path, label, labelled=labelled, classes=classes, centre=centre)
    if labelled and classes is None:
        faults += class_faults(participants, participants.without({fault.line for fault in faults if fault.line is not None}))
    if faults:
        raise report(str(participants.path), faults, "fix the table")
    return participants


def listed_files(path: str | os.PathLike[str]) -> tuple[pathlib.Path, ...]:
    """Return the scans and masks that a table lists, whether they exist or not; none where it cannot be read.

    Parameters
    ----------
    path : the table.
    """
    try:
        table = read_table(path)
    except DataError:
        return ()
    cells = (row.cells.get(name) for row in table.rows for name in (PATH, MASK))
    return tuple(table.path.parent / cell for cell in cells if cell)


def examine_table(
    path: str | os.PathLike[str], label: str, *, labelled: bool, classes: Sequence[str] | None, centre: str | None = None
) -> tuple[Participants, list[CohortFault]]:
    """Return the scans of all rows that name a participant and a file, and the faults of the rows.

    Parameters
    ----------
    path, label, labelled, classes, centre : as for `read_participants`.

    Raises
    ------
    DataError
        If the table cannot be read or lacks a column, or the labels that are to be classes are measurements, such as ages.
    """
    table = read_table(path)
    _check_columns(table, label, labelled)
    centre_column = _centre_column(table, centre, label)
    faults = [*table.faults, *(fault for row in table.rows for fault in _row_faults(row, label, labelled, classes))]
    scans = tuple(_scan(row, table.path.parent, label, centre_column) for row in table.rows if row.cells[PARTICIPANT] and row.cells[PATH])
    class_names = class_order(scan.label for scan in scans if scan.label) if classes is None else tuple(classes)
    participants = Participants(table.path, scans, label, class_names, _session_column(table), centre_column)
    measured = measurements_text(label, _by_label(participants)) if classes is None and labelled else None
    if measured is not None:
        raise DataError(f"{table.path}: {measured}")
    faults += _repetitions(scans)
    faults += alike_faults(class_names) if classes is None and labelled else []
    return participants, sorted(faults, key=lambda fault: fault.line or 2**31)


def class_faults(participants: Participants, usable: Participants) -> list[CohortFault]:
    """Return what is wrong with how labels are spread.

    Parameters
    ----------
    participants : all scans.
    usable : those without a fault.
    """
    return spread_faults(participants.label_column, participants.classes, _by_label(participants), _by_label(usable))


def _by_label(participants: Participants) -> dict[str, list[str]]:
    pairs = dict.fromkeys((scan.label, scan.participant) for scan in participants.scans if scan.label)
    return {name: [who for label, who in pairs if label == name] for name in participants.classes}


def _check_columns(table: TsvTable, label: str, labelled: bool) -> None:
    wanted = [PARTICIPANT, PATH, *([label] if labelled else [])]
    missing = [name for name in wanted if name not in table.columns]
    if missing:
        wrong = f"{table.path} lacks the column{'s' if len(missing) > 1 else ''} {', '.join(map(repr, missing))}: it has {_listed(table)}"
        paths = f", each scan's file from {table.path.parent} on in {PATH!r}" if PATH in missing else ""
        named = ", or name the labels' column with --label (label=...)" if label in missing else ""
        raise DataError(f"{wrong}; add what is missing{paths}{named}")


def _session_column(table: TsvTable) -> str:
    """Return the name of the column that sessions are read from; of two the one that has any."""
    there = [name for name in SESSIONS if name in table.columns]
    filled = [name for name in there if any(row.cells.get(name) for row in table.rows)]
    return next(iter([*filled, *there]), SESSIONS[0])


def _centre_column(table: TsvTable, wanted: str | None, label: str) -> str | None:
    """Return the name of the column that sites are read from, None where there is none, or they are what is to be predicted."""
    if wanted is not None and wanted not in table.columns:
        raise DataError(
            f"{table.path} lacks the column {wanted!r}: it has {_listed(table)}; name the column of sites with --site (centre=...)"
        )
    return wanted if wanted is not None else next((name for name in CENTRES if name in table.columns and name != label), None)


def _listed(table: TsvTable) -> str:
    return ", ".join(map(repr, table.columns))


def _row_faults(row: Row, label: str, labelled: bool, classes: Sequence[str] | None) -> list[CohortFault]:
    who = f"line {row.line} ({row.cells[PARTICIPANT] or 'nobody'})"
    needed = [PARTICIPANT, PATH, *([label] if labelled else [])]
    empty = [name for name in needed if not row.cells[name]]
    faults = [f"{name} is {row.written[name].strip()!r}, which stands for unknown; write it" for name in empty]
    given = row.cells.get(label, "")
    if labelled and given and classes is not None and given not in classes:
        faults.append(f"{label} is {given!r} and the classes are {', '.join(map(repr, classes))}; correct it")
    return [CohortFault(f"{who}: {fault}, or leave the row out", row.line) for fault in faults]


def _scan(row: Row, folder: pathlib.Path, label: str, centre: str | None) -> Scan:
    session = next((row.cells[name] for name in SESSIONS if row.cells.get(name)), None)
    mask = row.cells.get(MASK)
    scan = Scan(
        row.cells[PARTICIPANT], session, row.cells.get(label) or None, folder / row.cells[PATH], folder / mask if mask else None, row.line
    )
    return scan if centre is None else dataclasses.replace(scan, centre=row.cells.get(centre) or None)


def _repetitions(scans: Sequence[Scan]) -> list[CohortFault]:
    """Return a fault for every row with the participant and session, or else the file, of another.

    Of rows that agree the first can stay; where labels or participants differ it is not known which is right.
    """
    faults = []
    for first, *others in _groups(scans, lambda scan: scan.key):
        same = len({scan.label for scan in (first, *others)}) == 1
        pairs = [(scan, first) for scan in others] + ([] if same else [(first, others[0])])
        faults += [_fault(scan, f"line {other.line} is of the same participant and session; keep one of them") for scan, other in pairs]
    for first, *others in _groups(scans, lambda scan: os.path.realpath(scan.path)):
        strangers = [scan for scan in others if scan.key != first.key]
        pairs = [(scan, first) for scan in strangers] + ([(first, strangers[0])] if strangers else [])
        for scan, other in pairs:
            wrong = f"its file {scan.path} is that of line {other.line} ({other.key})"
            faults.append(_fault(scan, f"{wrong}; one scan cannot be of two, correct the path"))
    for first, *others in _groups(scans, lambda scan: scan.key.partition("_ses-")[0]):
        odd = [scan for scan in others if scan.participant != first.participant]
        faults += [_fault(scan, f"line {first.line} writes this participant {first.participant!r}; write it alike") for scan in odd]
    return faults


def _fault(scan: Scan, wrong: str) -> CohortFault:
    return CohortFault(f"line {scan.line} ({scan.participant}): {wrong}", scan.line)


def _groups(scans: Sequence[Scan], name: Callable[[Scan], str]) -> list[list[Scan]]:
    groups: dict[str, list[Scan]] = {}
    for scan in scans:
        groups.setdefault(name(scan), []).append(scan)
    return [group for group in groups.values() if len(group) > 1]
