from __future__ import annotations

from hetero_mtf.report.section import Section, sections_text
from hetero_mtf.report.table import Table


def test_a_section_is_its_title_figures_sentences_and_table() -> None:
    table = Table(("name", "units"), (("a", "7"),), "A title that is not shown again")
    text = sections_text([Section("First", ("one thing", "another"), table, figures=(("step", "3 s"),)), Section("Second")])
    lines = [line.split() for line in text.splitlines()]  # releases of rich draw columns of several widths
    assert lines[:7] == [["First"], ["====="], ["step", "3", "s"], ["one", "thing"], ["another"], [], ["name", "units"]]
    assert text.endswith("\n\nSecond\n======") and "not shown" not in text


def test_an_empty_table_is_not_drawn() -> None:
    assert sections_text([Section("First", (), Table(("name",), ()))]) == "First\n====="


def test_sentences_are_folded_to_the_columns_of_a_terminal_and_kept_whole_in_a_file() -> None:
    sentence = "a step takes 1.25 ms and so on " * 9 + "to the end"
    folded = sections_text([Section("First", (sentence,))], 40).splitlines()
    assert max(map(len, folded)) <= 40 and not any(line.endswith("1.25") for line in folded)
    assert " ".join(" ".join(folded[2:]).split()) == sentence
    assert sentence in sections_text([Section("First", (sentence,))]).splitlines()
