"""Findings: what was looked at, what was found, and what to do; for the terminal, a page, and a JSON file without anything personal."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from hetero_mtf.report.section import Section
from hetero_mtf.report.table import Table

GOOD, DOUBT, FAULT, LEFT_OUT = "ok", "warning", "fault", "left out"
VERSION = 1


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Parameters
    ----------
    what : in two or three words.
    state : `GOOD`, `DOUBT`, `FAULT`, or `LEFT_OUT` where it does not apply or was not reached.
    text : what was found, without a full stop.
    remedy : what to do; "" where nothing is to be done.
    figures : name -> number, text or list, for the JSON file.
    """

    what: str
    state: str
    text: str
    remedy: str = ""
    figures: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Chapter:
    """Findings of one kind, with a table where there are many numbers.

    Parameters
    ----------
    title : a few words.
    findings : in order.
    table : None for none.
    """

    title: str
    findings: tuple[Finding, ...]
    table: Table | None = None


@dataclasses.dataclass(frozen=True)
class Examination:
    """All that was found.

    Parameters
    ----------
    chapters : in the order in which they were examined.
    verdict : sentences to read first.
    seconds : that it took.
    """

    chapters: tuple[Chapter, ...]
    verdict: tuple[str, ...]
    seconds: float

    @property
    def faults(self) -> int:
        """Number of findings that are faults."""
        return sum(finding.state == FAULT for chapter in self.chapters for finding in chapter.findings)

    def sections(self) -> tuple[Section, ...]:
        """Return the sections for a terminal and a page, the verdict first."""
        return (Section("Verdict", self.verdict, leads=True), *(_section(chapter) for chapter in self.chapters))

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able document."""
        chapters = [
            {"title": chapter.title, "findings": [_plain(finding) for finding in chapter.findings], "table": _rows(chapter.table)}
            for chapter in self.chapters
        ]
        head = {"kind": "doctor", "version": VERSION, "seconds": round(self.seconds, 1)}
        return {**head, "verdict": list(self.verdict), "chapters": chapters}


def _section(chapter: Chapter) -> Section:
    sentences = []
    for finding in chapter.findings:
        remedy = f"; {finding.remedy}" if finding.remedy else ""
        sentences.append(f"{finding.state}: {finding.what}: {finding.text}{remedy}")
    return Section(chapter.title, tuple(sentences), chapter.table)


def _plain(finding: Finding) -> dict[str, Any]:
    return {**dataclasses.asdict(finding), "figures": dict(finding.figures)}


def _rows(table: Table | None) -> list[dict[str, str]]:
    return [] if table is None else [dict(zip(table.headings, row)) for row in table.rows]
