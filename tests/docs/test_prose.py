"""Pages can be read in the time that readers have: they are short, and so are their sentences."""

from __future__ import annotations

import pathlib
import re
import statistics
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINES = {
    "README.md": 150,
    "CONTRIBUTING.md": 60,
    "docs/adapting.md": 110,
    "docs/how_plans_are_computed.md": 80,
    "docs/journey.md": 80,
    "docs/limits.md": 60,
    "docs/mri.md": 201,
    "docs/papers.md": 150,
    "docs/planning.md": 150,
    "docs/quickstart.md": 310,
    "docs/results.md": 120,
    "docs/supported.md": 90,
    "docs/training.md": 157,
}
"""Most lines of a page: what is added displaces something."""

WORDS, MEDIAN = 40, 18  # of a sentence: at most, and in the median of a page
PROSE = 15_000  # words in all pages
_FIGURE = re.compile(r"(?<![\w.`])\d[\d.,]*")
_NOT_PROSE = re.compile(r"^```.*?^```$|^\$\$.*?\$\$$|^<!--[^\n]*-->$|^\|[^\n]*$|^#[^\n]*$|^    [^\n]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


def pages() -> list[str]:
    return ["README.md", "CONTRIBUTING.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))]


def written(page: str) -> str:
    """Return the prose of a page: without code, tables, headings and what is written from results."""
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"^<!-- (?:results|derived|output):.*?^(?:<!-- end -->|```)$", "", text, flags=re.MULTILINE | re.DOTALL)
    return _LINK.sub(r"\1", _NOT_PROSE.sub("\n", text))


def sentences(page: str) -> Iterator[str]:
    """Yield the sentences of a page; an item of a list ends one."""
    for block in re.split(r"\n\s*\n|^\s*(?:[-*]|\d+\.) ", written(page), flags=re.MULTILINE):
        for sentence in re.split(r"(?<=[.?!])[\"*)]*\s+", " ".join(block.split())):
            if sentence.strip():
                yield sentence.strip()


@pytest.mark.parametrize("page", LINES)
def test_a_page_has_no_more_lines_than_readers_have_time_for(page: str) -> None:
    assert len((ROOT / page).read_text(encoding="utf-8").splitlines()) <= LINES[page]


@pytest.mark.parametrize("page", pages())
def test_sentences_are_short(page: str) -> None:
    counts = {sentence: len(sentence.split()) for sentence in sentences(page)}
    assert [sentence for sentence, words in counts.items() if words > WORDS] == []
    assert not counts or statistics.median(counts.values()) <= MEDIAN


def test_all_prose_together_can_be_read() -> None:
    assert sum(len(written(page).split()) for page in pages()) <= PROSE


def test_a_limitation_is_one_line_with_one_figure_at_most() -> None:
    lines = [line for line in (ROOT / "docs" / "limits.md").read_text(encoding="utf-8").splitlines() if line.startswith("- ")]
    assert len(lines) > 20
    plain = {line: _LINK.sub("", re.sub(r"`[^`]*`", "", line)) for line in lines}
    assert {line: _FIGURE.findall(text) for line, text in plain.items() if len(_FIGURE.findall(text)) > 1} == {}
