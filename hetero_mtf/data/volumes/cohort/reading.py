"""Reads participants and their scans from a BIDS-like participants.tsv."""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
import unicodedata
from collections.abc import Sequence

from hetero_mtf.data.volumes.cohort.classes import alike_faults, class_order, measurements_text, spread_faults
from hetero_mtf.data.volumes.cohort.cohort_options import CohortOptions
from hetero_mtf.data.volumes.cohort.fault import CohortFault, report
from hetero_mtf.data.volumes.cohort.participants import CENTRES, SESSIONS, Participants, Scan
from hetero_mtf.data.volumes.cohort.repetitions import repetition_faults, spelling_faults
from hetero_mtf.data.volumes.cohort.spelling import ALIKE, cell_text, check_ids, comparison_form
from hetero_mtf.data.volumes.cohort.tsv_table import DOCUMENTED, Row, TsvTable, read_table
from hetero_mtf.errors import DataError
from hetero_mtf.units import list_text

PARTICIPANT, PATH, MASK = "participant_id", "path", "mask"
_NAMED = 5  # spellings in a note
_NAME_CLASSES = "name all classes with --class (classes=...)"


def read_participants(
    path: str | os.PathLike[str],
    label: str = "diagnosis",
    *,
    labelled: bool = True,
    classes: Sequence[str] | None = None,
    centre: str | None = None,
    ids: str = ALIKE,
) -> Participants:
    """Return the scans that a table lists; their files are not read.

    The table has tab-separated columns `participant_id`, `path` (relative to the table) and the labels', and where wanted `session`
    (or `session_id`), `site` (or `site_id`) and `mask`. Empty cells and n/a stand for unknown, and so does what R, pandas, databases and
    spreadsheets write for it, such as NA, None or #N/A; the notes count those.

    Parameters
    ----------
    path : the table.
    label : name of the column of labels.
    labelled : whether every scan must have a label; else it is taken where there is one.
    classes : the only labels allowed, in their order, as of a trained model; None takes those of the table. A name that else stands for
        unknown, such as None, is a class where it is among them.
    centre : name of the column of sites; None takes `site` or `site_id` where there is one.
    ids : "alike": participants and sessions that differ in writing only, such as sub-01 and 1, are one, and must be written alike;
        "exact": only equal text is the same participant.

    Raises
    ------
    DataError
        If the table cannot be read; or else with every fault of its rows and labels: cells that are missing, rows or files that
        occur twice, participants written in two forms, unknown labels, and, where the classes are the table's, fewer than two or one
        with fewer than two participants.
    """
    options = CohortOptions(label, labelled, None if classes is None else tuple(classes), centre=centre, ids=ids)
    participants, faults = examine_table(path, options)
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
    files = (_file(row, name, table.path.parent) for row in table.rows for name in (PATH, MASK))
    return tuple(file for file in files if file is not None)


def examine_table(path: str | os.PathLike[str], options: CohortOptions) -> tuple[Participants, list[CohortFault]]:
    """Return the scans of all rows that name a participant and a file, and the faults of the rows.

    Parameters
    ----------
    path : the table.
    options : how it is taken.

    Raises
    ------
    DataError
        If the table cannot be read or lacks a column, or the labels that are to be classes are measurements, such as ages.
    """
    check_ids(options.ids)
    table, options = read_table(path), _in_one_form(options)
    label, classes = options.label, options.classes
    _check_columns(table, label, options.labelled)
    options = dataclasses.replace(options, centre=_centre_column(table, options.centre, label))
    faults = [*table.faults, *(fault for row in table.rows for fault in _row_faults(row, options))]
    scans = tuple(scan for scan in (_scan(row, table.path.parent, options) for row in table.rows) if scan is not None)
    class_names = class_order(scan.label for scan in scans if scan.label) if classes is None else classes
    columns = (_session_column(table), options.centre)
    participants = Participants(table.path, scans, label, class_names, *columns, options.ids, _notes(table, options))
    measured = measurements_text(label, _by_label(participants)) if classes is None and options.labelled else None
    if measured is not None:
        raise DataError(f"{table.path}: {measured}")
    faults += [*repetition_faults(participants), *spelling_faults(participants)]
    faults += alike_faults(class_names) if classes is None and options.labelled else []
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
    spellings = participants.spellings
    pairs = dict.fromkeys((scan.label, spellings[participants.form(scan.participant)]) for scan in participants.scans if scan.label)
    return {name: [who for label, who in pairs if label == name] for name in participants.classes}


def _in_one_form(options: CohortOptions) -> CohortOptions:
    """Return options with names as `cell_text` reads those of the table."""
    classes = None if options.classes is None else tuple(map(cell_text, options.classes))
    centre = None if options.centre is None else cell_text(options.centre)
    return dataclasses.replace(options, label=cell_text(options.label), classes=classes, centre=centre)


def _check_columns(table: TsvTable, label: str, labelled: bool) -> None:
    required = [PARTICIPANT, PATH, *([label] if labelled else [])]
    missing = [name for name in required if name not in table.columns]
    if missing:
        wrong = f"{table.path} lacks the column{'s' if len(missing) > 1 else ''} {', '.join(map(repr, missing))}: it has {_listed(table)}"
        paths = f", each scan's file from {table.path.parent} on in {PATH!r}" if PATH in missing else ""
        named = ", or name the labels' column with --label (label=...)" if label in missing else ""
        raise DataError(wrong, f"add what is missing{paths}{named}")


def _session_column(table: TsvTable) -> str:
    """Return the name of the column that sessions are read from; of two the one that has any."""
    there = [name for name in SESSIONS if name in table.columns]
    filled = [name for name in there if any(row.cells.get(name) for row in table.rows)]
    return next(iter([*filled, *there]), SESSIONS[0])


def _centre_column(table: TsvTable, centre: str | None, label: str) -> str | None:
    """Return the name of the column that sites are read from, None where there is none, or they are what is to be predicted."""
    if centre is not None and centre not in table.columns:
        raise DataError(
            f"{table.path} lacks the column {centre!r}: it has {_listed(table)}", "name the column of sites with --site (centre=...)"
        )
    return centre if centre is not None else next((name for name in CENTRES if name in table.columns and name != label), None)


def _listed(table: TsvTable) -> str:
    return ", ".join(map(repr, table.columns))


def _row_faults(row: Row, options: CohortOptions) -> list[CohortFault]:
    who, label, classes = f"line {row.line} ({row.cells[PARTICIPANT] or 'nobody'})", options.label, options.classes
    own_label = _label(row, options)
    needed = {PARTICIPANT: row.cells[PARTICIPANT], PATH: row.cells[PATH], **({label: own_label} if options.labelled else {})}
    empty = [(name, row.written[name].strip()) for name, cell in needed.items() if not cell]
    perhaps = label if classes is None and comparison_form(row.written.get(label, "")) not in DOCUMENTED else None
    remedies = {perhaps: f"write it, or {_NAME_CLASSES} if it is one"}
    faults = [f"{name} is {text!r}, which stands for unknown; {remedies.get(name, 'write it')}" for name, text in empty]
    if options.labelled and own_label and classes is not None and own_label not in classes:
        faults.append(f"{label} is {own_label!r} and the classes are {', '.join(map(repr, classes))}; correct it")
    return [CohortFault(f"{who}: {fault}, or leave the row out", row.line) for fault in faults]


def _label(row: Row, options: CohortOptions) -> str:
    """Return the label of a row, "" where it is not known; what else stands for unknown may be the name of a class."""
    cell = row.cells.get(options.label, "")
    if cell or not options.classes:
        return cell
    name = cell_text(row.written.get(options.label, ""))
    return name if name in options.classes else ""


def _scan(row: Row, folder: pathlib.Path, options: CohortOptions) -> Scan | None:
    """Return the scan of a row, or None where it does not name a participant and a file."""
    path = _file(row, PATH, folder)
    if path is None or not row.cells[PARTICIPANT]:
        return None
    session = next((row.cells[name] for name in SESSIONS if row.cells.get(name)), None)
    scan = Scan(row.cells[PARTICIPANT], session, _label(row, options) or None, path, _file(row, MASK, folder), row.line)
    return scan if options.centre is None else dataclasses.replace(scan, centre=row.cells.get(options.centre) or None)


def _file(row: Row, column: str, folder: pathlib.Path) -> pathlib.Path | None:
    """Return the file that a cell names, None where it stands for unknown.

    Names of files are bytes, and taken as they are written. Where there is no such file, that of the same letters in another Unicode
    form is taken: one system composes accents in names, another takes them apart.
    """
    if not row.cells.get(column):
        return None
    written = row.written[column].strip()
    if written.isascii() or os.path.lexists(folder / written):
        return folder / written
    place = folder
    for part in pathlib.PurePath(written).parts:
        read = cell_text(part)
        names = (part, read, unicodedata.normalize("NFD", read))
        place = next((place / name for name in names if os.path.lexists(place / name)), place / part)
    return place if os.path.lexists(place) else folder / written


def _notes(table: TsvTable, options: CohortOptions) -> tuple[str, ...]:
    """Return which cells were taken as missing, by their spelling, and how many files are named in another Unicode form."""
    columns = dict.fromkeys((PARTICIPANT, *SESSIONS, options.centre, options.label, PATH, MASK))
    there = [name for name in columns if name is not None and name in table.columns]
    return (*filter(None, (_missing_note(table, name, options) for name in there)), *_renamed_note(table))


def _missing_note(table: TsvTable, column: str, options: CohortOptions) -> str:
    """Return how often what stands for unknown is in a column, beside empty cells and n/a, which are documented; "" where nowhere."""
    known = (lambda row: _label(row, options)) if column == options.label else (lambda row: row.cells[column])
    spellings = collections.Counter(cell_text(row.written[column]) for row in table.rows if not known(row))
    others = [(text, count) for text, count in spellings.items() if comparison_form(text) not in DOCUMENTED]
    counts = [f"{text!r} in {count} row{'s' if count > 1 else ''}" for text, count in others]
    if not counts:
        return ""
    class_remedy = f"; if that is a class, {_NAME_CLASSES}" if column == options.label and options.classes is None else ""
    return f"{column}: {list_text(counts, _NAMED)} taken as missing, as n/a is{class_remedy}"


def _renamed_note(table: TsvTable) -> list[str]:
    folder = table.path.parent
    pairs = ((_file(row, name, folder), row.written.get(name, "").strip()) for row in table.rows for name in (PATH, MASK))
    renamed = [written for path, written in pairs if path is not None and path != folder / written]
    count = f"{len(renamed)} file{'s' if len(renamed) > 1 else ''}"
    return [f"{count} taken by a name in another Unicode form than the table's, such as {renamed[0]!a}"] if renamed else []
