"""CohortFault: what is wrong with a cohort in one place, and the report of all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hetero_mtf.errors import ReportError


@dataclasses.dataclass(frozen=True)
class CohortFault:
    """What is wrong with a row of the table, with its file, or with the table as a whole.

    Parameters
    ----------
    text : where it is, what is wrong, what to do.
    line : line of the table that can be left out to be rid of it, 1 for the header's; None where leaving out no row would do.
    """

    text: str
    line: int | None = None


def report(subject: str, faults: Sequence[CohortFault], remedy: str) -> ReportError:
    """Return the error that names every fault, one a line.

    Parameters
    ----------
    subject : what has the faults.
    faults : at least one.
    remedy : what to do about all of them.

    Examples
    --------
    >>> print(report("people.tsv", [CohortFault("line 3: path is missing; write it", 3)], "fix it"))
    people.tsv has 1 fault; fix it:
      line 3: path is missing; write it
    """
    count = f"{len(faults)} fault{'s' if len(faults) > 1 else ''}"
    return ReportError("\n  ".join([f"{subject} has {count}; {remedy}:", *(fault.text for fault in faults)]))
