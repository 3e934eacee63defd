from __future__ import annotations

import dataclasses
import html.parser
import pathlib
import re

import pytest

from hetero_mtf.errors import HeteroError
from hetero_mtf.planning.choose import plan, plan_if
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.what_if import WhatIf, what_if_profile
from hetero_mtf.report.before_after import before_after
from hetero_mtf.report.page import page, write_page
from hetero_mtf.report.plan_facts import facts, reported_plan
from hetero_mtf.report.section import Section, sections_text
from tests.planning.networks import Net, pair_net, profile_of

VOID = {"meta"}


class Reader(html.parser.HTMLParser):
    """Reads a page: its tables, its words, the lengths of its bars, and whether every tag is closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.bars: list[list[float]] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.attributes += [(tag, name, value) for name, value in found.items()]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "div" and found.get("class") == "bar":
            self.bars.append([])
        elif tag == "span":
            self.bars[-1].append(float(re.findall(r"width:([\d.]+)%", found["style"])[0]))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data


def profile() -> Profile:
    net = Net()
    net.conv("first <script>alert(1)</script>", 24)
    net.conv('"second" & more', 24)
    net.add("Flatten", "flatten")
    net.dense("head", 24)
    return profile_of(net.graph(), [2e6, 1e6], 1e-6, batch_size=8)


def sections() -> tuple[Section, ...]:
    made, what_if = plan(profile()), WhatIf(scale=(("worker:1", 2.0),))
    after = plan_if(profile(), what_if)
    return facts(reported_plan(made, profile())) + before_after(made, after, what_if_profile(profile(), what_if))


@pytest.mark.slow
def test_the_page_says_what_the_terminal_says() -> None:
    read = Reader(page("A title", sections()))
    said = " ".join(" ".join(read.words).split())
    for section in sections():
        assert section.title in said
        assert all(sentence in said for sentence in section.sentences)
        assert all(name in said and value in said for name, value in section.figures)
    tables = [s.table for s in sections() if s.table is not None and s.table.rows]
    assert read.tables == [[list(table.headings), *map(list, table.rows)] for table in tables]
    text = " ".join(sections_text(sections()).split())
    assert all(cell in text for table in tables for row in table.rows for cell in row if " " not in cell)


def test_the_numbers_of_the_page_are_those_of_the_plan() -> None:
    made = plan(profile(), strategy="filters")
    read = Reader(page("A title", facts(reported_plan(made, profile()))))
    (stage,) = made.stages
    bars = [entry.sizes or (1,) for entry in stage.layouts]
    assert made.predicted is not None
    for drawn, sizes in zip(read.bars, bars):
        assert drawn == pytest.approx([100 * size / sum(sizes) for size in sizes if size], abs=1e-3)
    for drawn, part in zip(read.bars[len(bars) :], made.predicted.parts):
        seconds = [s for s in (part.compute_s, part.communication_s, part.idle_s) if s > 0]
        assert drawn == pytest.approx([100 * s / made.predicted.step_s for s in seconds], abs=1e-3)
    cells = {row[1]: row[3:] for row in read.tables[0][1:]}
    for entry in stage.layouts:
        assert cells[entry.name] == ([str(size) for size in entry.sizes] or ["all"] * 2)


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    text = page("<i>title</i>", sections())
    read = Reader(text)
    assert not {name for _, name, _ in read.attributes} & {"src", "href", "srcset", "action"} and "<script" not in text
    assert "url(" not in text and "@import" not in text and "http" not in text
    assert not any(name.startswith("on") for _, name, _ in read.attributes)


def test_names_are_shown_as_they_are() -> None:
    words = Reader(page("<i>title</i>", sections())).words
    assert "<i>title</i>" in words and "first <script>alert(1)</script>" in words and '"second" & more' in words


@pytest.mark.slow
def test_the_page_follows_light_and_dark_and_reads_aloud() -> None:
    text = page("A title", sections())
    read = Reader(text)
    assert "prefers-color-scheme: dark" in text and '<html lang="en">' in text and 'name="viewport"' in text
    labels = [value for tag, name, value in read.attributes if name == "aria-labelledby"]
    names = [value for tag, name, value in read.attributes if (tag, name) == ("h2", "id")]
    assert labels == names and len(set(names)) == len(names)
    pictures = [bar for section in sections() if section.bars is not None for bar in section.bars.bars]
    told = [value for tag, name, value in read.attributes if (tag, name) == ("div", "aria-label")]
    assert len(pictures) == len(told) > 0
    for bar, value in zip(pictures, told):
        assert value.startswith(f"{bar.label}: ") and all(text in value for text in bar.texts)


def test_a_long_table_under_a_picture_is_folded() -> None:
    net = Net()
    for at in range(20):
        net.conv(f"conv{at}", 8)
    made = Plan.filters(net.graph(), [1, 1], profile().cluster, 8)
    folded = page("A title", facts(reported_plan(made)))
    assert "<details><summary>the same as a table</summary>" in folded and len(Reader(folded).tables[0]) == 22
    assert "<details>" not in page("A title", facts(reported_plan(Plan.filters(pair_net(), [1, 1], profile().cluster, 8))))


@pytest.mark.slow
def test_the_page_is_written_in_one_piece(tmp_path: pathlib.Path) -> None:
    write_page(tmp_path / "page.html", "A title", sections())
    assert (tmp_path / "page.html").read_text() == page("A title", sections())
    with pytest.raises(HeteroError, match="cannot write .*; choose another place"):
        write_page(tmp_path / "missing" / "page.html", "A title", sections())


def test_a_step_of_no_time_draws_no_bars_of_time() -> None:
    idle = dataclasses.replace(profile(), curves=tuple(dataclasses.replace(c, seconds=(0.0,) * len(c.units)) for c in profile().curves))
    read = Reader(page("A title", facts(reported_plan(plan(idle, strategy="single"), idle))[:4]))
    assert len(read.bars) == 5
