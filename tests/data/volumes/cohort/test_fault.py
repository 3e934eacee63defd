from __future__ import annotations

from hetero_mtf.data.volumes import CohortFault
from hetero_mtf.data.volumes.cohort.fault import report


def test_a_report_counts_its_faults_and_has_one_a_line() -> None:
    message = str(report("x.tsv", [CohortFault("a; do b"), CohortFault("c; do d", 4)], "fix it"))
    assert message == "x.tsv has 2 faults; fix it:\n  a; do b\n  c; do d"
