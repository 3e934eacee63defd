"""The check before training: every row and every file looked at, one report of all that is wrong."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence

from hetero_mtf.data.volumes.cache import VolumeCache
from hetero_mtf.data.volumes.cohort.cohort_options import WORKERS, CohortOptions
from hetero_mtf.data.volumes.cohort.fault import CohortFault, report
from hetero_mtf.data.volumes.cohort.participants import Participants, Scan
from hetero_mtf.data.volumes.cohort.reading import class_faults, examine_table
from hetero_mtf.errors import DataError
from hetero_mtf.file_kind import absent

_NOTES = 20  # different notes in a log
_ALIKE = 3  # notes that begin with the same word and are listed one by one


@dataclasses.dataclass(frozen=True)
class Cohort:
    """Participants whose scans can all be used.

    Parameters
    ----------
    participants : those without faults.
    skipped : faults of the rows and files that were left out.
    notes : key of a scan -> what was not plain about it.
    """

    participants: Participants
    skipped: tuple[CohortFault, ...]
    notes: Mapping[str, tuple[str, ...]]

    def lines(self) -> tuple[str, ...]:
        """Return what there is, what was left out and what was noted, for a log, one a line."""
        scans = self.participants.scans
        counts = collections.Counter(scan.label for scan in scans)
        spread = ", ".join(f"{counts[name]} {name}" for name in self.participants.classes if counts[name])
        people = len(self.participants.ids)
        count = f"{len(scans)} scan{'s' if len(scans) != 1 else ''} of {people} participant{'s' if people != 1 else ''}"
        first = f"{count}: {spread}" if spread else count
        left_out = [f"left out: {fault.text}" for fault in self.skipped]
        note_counts = collections.Counter(note for notes in self.notes.values() for note in notes)
        noted = _noted(note_counts)
        more = [f"and {len(noted) - _NOTES} more kind{'s' if len(noted) > _NOTES + 1 else ''} of notes"] if len(noted) > _NOTES else []
        return (first, *self.participants.notes, *left_out, *noted[:_NOTES], *more)


@dataclasses.dataclass(frozen=True)
class Seen:
    """A scan that was read.

    Parameters
    ----------
    scan : with its content.
    notes : what was not plain about it.
    """

    scan: Scan
    notes: tuple[str, ...]


def _noted(note_counts: collections.Counter[str]) -> list[str]:
    """Return notes with how many scans have them, the most frequent first; many that begin alike are one."""
    groups: dict[str, list[tuple[str, int]]] = {}
    for note, count in note_counts.most_common():
        groups.setdefault(note.partition(" ")[0], []).append((note, count))
    lines = []
    for group in groups.values():
        others = f", or in {len(group) - 1} other ways"
        few = len(group) <= _ALIKE
        lines += group if few else [(group[0][0] + others, sum(count for _, count in group))]
    return [f"{count} scan{'s' if count > 1 else ''}: {note}" for note, count in sorted(lines, key=lambda line: -line[1])]


def open_cohort(
    path: str | os.PathLike[str],
    cache: VolumeCache,
    options: CohortOptions | None = None,
    more: Callable[[Participants], Sequence[str]] | None = None,
    advance: Callable[[str], None] | None = None,
) -> Cohort:
    """Return the scans of a table after reading each file once, which fills the cache.

    Parameters
    ----------
    path : the table, as for `read_participants`.
    cache : where volumes come from and are kept.
    options : how to take the table; None for the defaults.
    more : what else is to be in the report, such as the faults of a split: given the participants, those with faults included.
    advance : called with the key of every scan that was looked at, as by `hetero_mtf.report.progress`.

    Raises
    ------
    DataError
        If no file of the table exists, or masks are wanted and it names none; else with every fault of the table, of the files and of
        `more`, one a line; with `skip_bad` only where faults are left that leaving out rows does not fix, such as an empty class.
    """
    own_options = CohortOptions() if options is None else options
    participants, faults = examine_table(path, own_options)
    _check_columns(participants, cache.steps.mask == "table")
    file_faults, read = check_scans(participants, cache, own_options.workers, advance)
    seen = {one.scan.line: one for one in read}
    scans = tuple(seen[scan.line].scan if scan.line in seen else scan for scan in participants.scans)
    participants = dataclasses.replace(participants, scans=scans)
    rows = sorted([*(fault for fault in faults if fault.line is not None), *file_faults], key=lambda fault: fault.line or 0)
    usable = participants.without({fault.line for fault in rows if fault.line is not None})
    cohort_faults = [fault for fault in faults if fault.line is None]
    cohort_faults += class_faults(participants, usable) if own_options.labelled and own_options.classes is None else []
    cohort_faults += [] if usable.scans else [CohortFault("no scan can be used; fix the files above, or check the paths")]
    cohort_faults += [] if more is None else [CohortFault(text) for text in more(participants)]
    if cohort_faults or (rows and not own_options.skip_bad):
        raise _report(participants, rows, cohort_faults, own_options.skip_bad)
    notes = dict[str, tuple[str, ...]]()
    for scan in usable.scans:
        if seen[scan.line].notes:  # two scans have one key where sub-01 and 01 are different people
            notes[scan.key] = (*notes.get(scan.key, ()), *seen[scan.line].notes)
    return Cohort(usable, tuple(rows), notes)


def _check_columns(participants: Participants, masks: bool) -> None:
    """Refuse a column of paths, or of masks where they are wanted, of which not one can be used, in one sentence for all rows."""
    table, scans = participants.path, participants.scans
    if len(scans) > 1 and not any(os.path.exists(scan.path) for scan in scans):
        origin = f"{table.parent}, the folder of the table{' and not of the file it links to' if table.is_symlink() else ''}"
        wrong, remedy = f"not one of the {len(scans)} files in {table} exists", f"write paths from {origin}"
        link = next((scan.path for scan in scans if os.path.islink(scan.path)), None)
        raise DataError(f"{wrong}, such as {scans[0].path}; {remedy}" if link is None else f"{wrong}: {absent(link, remedy)}")
    if masks and scans and not any(scan.mask for scan in scans):
        raise DataError(f"{table} names no mask and masks are to come from it", "fill in its column mask, or train with another --mask")


def _report(participants: Participants, rows: Sequence[CohortFault], cohort_faults: Sequence[CohortFault], skip_bad: bool) -> DataError:
    lines = len({fault.line for fault in rows})
    remedy = "fix them"
    if rows and not skip_bad and not cohort_faults:
        remedy = f"fix them, or leave out {lines} row{'s' if lines > 1 else ''} with --skip-bad (skip_bad=True)"
    elif rows and cohort_faults:
        remedy = "fix them; leaving out the bad rows (--skip-bad) is not enough"
    return report(f"{participants.path} with its scans", [*rows, *cohort_faults], remedy)


def check_scans(
    participants: Participants, cache: VolumeCache, workers: int = WORKERS, advance: Callable[[str], None] | None = None
) -> tuple[list[CohortFault], list[Seen]]:
    """Return the faults of all files, and the scans of those without.

    Parameters
    ----------
    cache : where volumes come from and are kept.
    workers : threads that read.
    advance : called with the key of every scan that was looked at.

    Raises
    ------
    DataError
        If there are no threads to read with.
    """
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise DataError(f"workers is {workers!r}", "use a whole number from 1")
    faults, seen = list[CohortFault](), list[Seen]()
    pool = concurrent.futures.ThreadPoolExecutor(workers, "hetero_mtf check")
    try:
        for scan, examined in zip(participants.scans, pool.map(lambda scan: _examined(scan, cache), participants.scans)):
            if isinstance(examined, CohortFault):
                faults.append(examined)
            else:
                seen.append(examined)
            if advance is not None:
                advance(scan.key)
    finally:
        pool.shutdown(cancel_futures=True)
    return faults, seen


def _examined(scan: Scan, cache: VolumeCache) -> CohortFault | Seen:
    try:
        volume = cache.volume(scan)
        return Seen(dataclasses.replace(scan, content=volume.content), volume.notes)
    except DataError as fault:
        return CohortFault(f"line {scan.line} ({scan.key}): {fault}", scan.line)
    except Exception as fault:  # whatever a damaged file brings about: the report must name it
        wrong = f"{scan.path} cannot be used ({type(fault).__name__}: {fault})"
        return CohortFault(f"line {scan.line} ({scan.key}): {wrong}; convert it again", scan.line)
