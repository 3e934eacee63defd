"""A study: subjects of two classes, their scans and their table."""

from __future__ import annotations

import csv
import dataclasses
import pathlib
from collections.abc import Iterator

import nibabel as nib
import numpy as np

from hetero_mtf.errors import DataError
from tools.cohort.anatomy import Anatomy, Variety, draw_anatomy
from tools.cohort.atrophy import NO_ATROPHY, draw_atrophy
from tools.cohort.scanner import draw_scanner
from tools.cohort.template import load_template

WELL, ILL = "NC", "AD"
HEADINGS = ("participant_id", "session_id", "diagnosis", "path")
TRUTH_HEADINGS = ("participant_id", "diagnosis", "age", "regions", "loss", "widening_mm", "radius_mm", "centres_mm")
ANATOMY, ILLNESS, SCANNER, NOISE, CLASSES = range(5)  # what is drawn apart, so that no part follows from another
SIZES = (16, 128)


@dataclasses.dataclass(frozen=True)
class Study:
    """What is drawn.

    Parameters
    ----------
    subjects : of both classes together, half of each.
    sessions : visits of each subject, each with its own scanner.
    size : voxels a side of the usual grid of 192 mm.
    strength : of the atrophy, 0 (the classes do not differ) to 1.
    seed : of everything.

    Raises
    ------
    DataError
        If a figure is out of range; all are named.
    """

    subjects: int = 120
    sessions: int = 1
    size: int = 48
    strength: float = 1.0
    seed: int = 0
    variety: Variety = Variety()

    def __post_init__(self) -> None:
        faults = [f"subjects is {self.subjects}: at least 2 are needed"] if self.subjects < 2 else []
        faults += [f"sessions is {self.sessions}: at least 1 is needed"] if self.sessions < 1 else []
        faults += [f"size is {self.size}: it is {SIZES[0]} to {SIZES[1]}"] if not SIZES[0] <= self.size <= SIZES[1] else []
        faults += [f"strength is {self.strength:g}: it is 0 to 1"] if not 0.0 <= self.strength <= 1.0 else []
        faults += [f"seed is {self.seed}: it is 0 or more"] if self.seed < 0 else []
        if faults:
            raise DataError(f"no cohort can be drawn: {'; '.join(faults)}", "give other figures")

    def stream(self, subject: int, session: int, purpose: int) -> np.random.Generator:
        """Return the random numbers of one purpose, which depend on nothing else."""
        return np.random.default_rng([self.seed, purpose, subject, session])


@dataclasses.dataclass(frozen=True)
class Subject:
    """One participant: its number from 0, id, label and anatomy."""

    index: int
    participant: str
    label: str
    anatomy: Anatomy


def draw_subjects(study: Study) -> Iterator[Subject]:
    """Yield the subjects of a study; of an odd number one more is well."""
    width = max(3, len(str(study.subjects)))
    ill = np.random.default_rng([study.seed, CLASSES]).permutation(study.subjects) < study.subjects // 2
    for index in range(study.subjects):
        atrophy = draw_atrophy(study.stream(index, 0, ILLNESS), study.strength, load_template()) if ill[index] else NO_ATROPHY
        anatomy = draw_anatomy(study.stream(index, 0, ANATOMY), study.variety, atrophy)
        yield Subject(index, f"sub-{index + 1:0{width}}", ILL if ill[index] else WELL, anatomy)


def draw_scan(study: Study, subject: Subject, session: int) -> tuple[nib.Nifti1Image, str]:
    """Return a scan of a subject and the ending of its file.

    Parameters
    ----------
    session : number of the visit, from 0.
    """
    scanner = draw_scanner(study.stream(subject.index, session, SCANNER), study.size)
    t1 = subject.anatomy.t1(load_template(), scanner.points())
    return scanner.image(t1, study.stream(subject.index, session, NOISE)), scanner.ending


def write_study(study: Study, folder: pathlib.Path) -> pathlib.Path:
    """Write the scans of a study, participants.tsv and truth.tsv, which says what the atrophy of each subject is; return the table's path.

    Parameters
    ----------
    folder : made, or empty.

    Raises
    ------
    DataError
        If there is something in the folder, or it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise DataError(f"{folder} is not empty", "name a new folder, or empty it")
        rows, truth = [], []
        for subject in draw_subjects(study):
            rows += [_write_scan(study, subject, session, folder) for session in range(study.sessions)]
            truth.append(_truth_row(subject))
        _write_table(folder / "truth.tsv", TRUTH_HEADINGS, truth)
        _write_table(folder / "participants.tsv", HEADINGS, rows)
    except OSError as fault:
        raise DataError(f"cannot write to {folder}: {fault.strerror or fault}", "choose another place or free some space") from fault
    return folder / "participants.tsv"


def _write_scan(study: Study, subject: Subject, session: int, folder: pathlib.Path) -> tuple[str, ...]:
    image, ending = draw_scan(study, subject, session)
    name = f"ses-{session + 1:02}"
    inside = pathlib.PurePosixPath(subject.participant, name, "anat", f"{subject.participant}_{name}_T1w{ending}")
    path = folder / inside
    path.parent.mkdir(parents=True)
    nib.save(image, path)
    return (subject.participant, name, subject.label, str(inside))


def _truth_row(subject: Subject) -> tuple[str, ...]:
    atrophy = subject.anatomy.atrophy
    centres = "; ".join(" ".join(f"{c:.1f}" for c in centre) for centre in subject.anatomy.centres())
    figures = (f"{atrophy.loss:.3f}", f"{atrophy.widening_mm:.2f}", f"{atrophy.radius_mm:.1f}" if atrophy.regions else "")
    return (subject.participant, subject.label, f"{subject.anatomy.age:.3f}", ", ".join(atrophy.regions), *figures, centres)


def _write_table(path: pathlib.Path, headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(headings)
        writer.writerows(rows)
