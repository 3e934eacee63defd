"""The terms of the field are used: retired words stand in no text or help of the program."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable
from typing import NamedTuple

import click
import pytest

from hetero_mtf.commands.main import NAMES as COMMANDS
from hetero_mtf.commands.main import program

ROOT = pathlib.Path(__file__).resolve().parents[1]
PLACES = ("hetero_mtf", "tools", "models", "docs", "README.md")
TEXT_FILES = (".py", ".md")
EARLIER_FILES = frozenset({"hetero_mtf/planning/plan/version1.py"})  # name the keys of files written before


class Retired(NamedTuple):
    """A retired word: a pattern, and what to write instead."""

    pattern: str
    instead: str


RETIRED = (
    Retired("lying", "layout, tensor layout"),
    Retired("keepers?", "supervisor"),
    Retired("teams?", "device groups"),
    Retired("worth", "contribution"),
    Retired(r"reckon\w*", "compute"),
    Retired(r"mend\w*", "fix, correct"),
    Retired("anew", "again, recomputed, for each"),
)


_IN_TEXTS = re.compile(rf"\b({'|'.join(word.pattern for word in RETIRED)})\b", re.IGNORECASE)


def faults_of_text(text: str, place: str) -> list[str]:
    """Return "PLACE:LINE: WORD: REPLACEMENT" for each retired word in a text."""
    return [
        f"{place}:{number}: {match[0]}: write {word.instead}"
        for number, line in enumerate(text.splitlines(), 1)
        if _IN_TEXTS.search(line)
        for word in RETIRED
        for match in re.finditer(rf"\b({word.pattern})\b", line, re.IGNORECASE)
    ]


def files_in(places: Iterable[str]) -> list[pathlib.Path]:
    """Return the text files below folders of the repository; a place may be a file."""
    paths = [path for place in places for path in ([ROOT / place] if (ROOT / place).is_file() else (ROOT / place).rglob("*"))]
    return sorted(path for path in paths if path.suffix in TEXT_FILES)


def _refuse(faults: list[str]) -> None:
    if faults:
        pytest.fail(f"{len(faults)} retired words:\n" + "\n".join(faults), pytrace=False)


@pytest.mark.slow
def test_no_text_has_a_retired_word() -> None:
    texts = {path.relative_to(ROOT).as_posix(): path.read_text() for path in files_in(PLACES)}
    _refuse([fault for place, text in texts.items() if place not in EARLIER_FILES for fault in faults_of_text(text, place)])


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_no_help_has_a_retired_word(name: str) -> None:
    context = click.Context(program, info_name="hetero-mtf", terminal_width=140, max_content_width=140)
    command = program.get_command(context, name) if name else program
    assert command is not None
    with click.Context(command, parent=context if name else None, info_name=name or "hetero-mtf") as own:
        text = command.get_help(own)
    assert "Usage:" in text
    _refuse(faults_of_text(text, f"hetero-mtf {name} --help".replace("  ", " ")))


def test_a_fault_names_its_line_its_word_and_what_to_write() -> None:
    assert faults_of_text("all is well\nmended, and the Keeper's", "a.md") == [
        "a.md:2: Keeper: write supervisor",
        "a.md:2: mended: write fix, correct",
    ]
    assert faults_of_text("recommend a foundation that was found, made and is worthy", "a.md") == []
