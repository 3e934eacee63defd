"""The terms of the field are used: retired words stand in no name, text or help of the program."""

from __future__ import annotations

import ast
import functools
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import click
import pytest

from hetero_mtf.commands.main import NAMES as COMMANDS
from hetero_mtf.commands.main import program

ROOT = pathlib.Path(__file__).resolve().parents[1]
PLACES = ("hetero_mtf", "tools", "models", "docs", "README.md")
TEXT_FILES = (".py", ".md")
EARLIER_FILES = frozenset({"hetero_mtf/planning/plan/version1.py"})  # name the keys of files written before
EXTERNAL = frozenset({"FileNotFoundError", "ModuleNotFoundError", "PackageNotFoundError"})


class Retired(NamedTuple):
    """A retired word: a pattern, what to write instead, and whether it is retired in names, in texts or in both."""

    pattern: str
    instead: str
    names: bool = True
    texts: bool = True


RETIRED = (
    Retired("lying", "layout, tensor layout"),
    Retired("keepers?", "supervisor"),
    Retired("teams?", "device groups"),
    Retired("worth", "contribution"),
    Retired(r"reckon\w*", "compute", names=False),
    Retired(r"mend\w*", "fix, correct", names=False),
    Retired("anew", "again, recomputed, for each"),
    Retired("found", "what the variable holds, such as plan or candidates", texts=False),
    Retired("made", "what the variable holds, such as plan or batch", texts=False),
    Retired("whole", "full_..., total_..., unsplit_..., integer", texts=False),
    Retired("way", "layout, tensor layout", texts=False),
    Retired("wish", "options, config", texts=False),
    Retired("site", "layer context", texts=False),
    Retired("turns", "task order", texts=False),
    Retired("ends", "outputs, loss inputs", texts=False),
    Retired("supposed|supposing", "what-if", texts=False),
    Retired("doubts", "warnings", texts=False),
)


_IN_TEXTS = re.compile(rf"\b({'|'.join(word.pattern for word in RETIRED if word.texts)})\b", re.IGNORECASE)


def faults_of_text(text: str, place: str) -> list[str]:
    """Return "PLACE:LINE: WORD: REPLACEMENT" for each retired word in a text."""
    return [
        f"{place}:{number}: {match[0]}: write {word.instead}"
        for number, line in enumerate(text.splitlines(), 1)
        if _IN_TEXTS.search(line)
        for word in RETIRED
        if word.texts
        for match in re.finditer(rf"\b({word.pattern})\b", line, re.IGNORECASE)
    ]


def faults_of_names(source: str, place: str) -> list[str]:
    """Return "PLACE:LINE: NAME (WORD): REPLACEMENT" for each identifier of Python source with a retired word as a part."""
    return [
        f"{place}:{number}: {name} ({part}): write {instead}"
        for name, number in sorted(set(_names(ast.parse(source))), key=lambda pair: (pair[1], pair[0]))
        if name not in EXTERNAL
        for part, instead in _retired_parts(name)
    ]


@functools.cache  # most names occur many times
def _retired_parts(name: str) -> list[tuple[str, str]]:
    """Return the parts of a name that are retired words, with what to write."""
    return [
        (part, word.instead)
        for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
        for word in RETIRED
        if word.names and re.fullmatch(word.pattern, part, re.IGNORECASE)
    ]


def _names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute):
            yield node.attr, node.end_lineno or node.lineno
        elif isinstance(node, (ast.arg, ast.keyword)) and node.arg is not None:
            yield node.arg, node.lineno
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name, node.lineno
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name is not None:
            yield node.name, node.lineno
        elif isinstance(node, ast.alias):
            yield from ((part, node.lineno) for part in (node.asname or node.name).split("."))


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


def test_no_name_has_a_retired_word() -> None:
    paths = [path for path in files_in(PLACES) if path.suffix == ".py"]
    faults = [fault for path in paths for fault in faults_of_names(path.read_text(), path.relative_to(ROOT).as_posix())]
    _refuse(faults)


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


@pytest.mark.parametrize(
    "source, name",
    [
        ("found = 1", "found (found)"),
        ("x.full_way", "full_way (way)"),
        ("f(\n    ends=1)", "ends (ends)"),
        ("def f(WholePart): pass", "WholePart (Whole)"),
        ("class _Turns: pass", "_Turns (Turns)"),
        ("import wish as w, a.site", "site (site)"),
        ("try: pass\nexcept OSError as made: pass", "made (made)"),
    ],
)
def test_a_name_is_judged_by_its_parts(source: str, name: str) -> None:
    (fault,) = faults_of_names(source, "a.py")
    assert name in fault and "write" in fault


def test_names_that_only_contain_a_word_are_fine() -> None:
    assert faults_of_names("always = foundation = suspends = website = FileNotFoundError = remade", "a.py") == []
