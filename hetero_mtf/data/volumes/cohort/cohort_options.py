"""CohortOptions: how a table of participants is taken."""

from __future__ import annotations

import dataclasses

from hetero_mtf.data.volumes.cohort.spelling import ALIKE

WORKERS = 2


@dataclasses.dataclass(frozen=True)
class CohortOptions:
    """How a table is taken.

    Parameters
    ----------
    label : name of the column of labels.
    labelled : whether every scan must have a label.
    classes : the only labels allowed, in their order, as of a trained model; None takes those of the table.
    skip_bad : whether rows and files with faults are left out; else one fault stops everything.
    workers : threads that read files.
    centre : name of the column of sites; None takes `site` or `site_id` where there is one.
    ids : "alike": participants and sessions that differ in writing only, such as sub-01 and 1, are one, and must be written alike;
        "exact": only equal text is the same participant.
    """

    label: str = "diagnosis"
    labelled: bool = True
    classes: tuple[str, ...] | None = None
    skip_bad: bool = False
    workers: int = WORKERS
    centre: str | None = None
    ids: str = ALIKE
