"""The page on the architecture names files and packages that are there, and all packages."""

from __future__ import annotations

import configparser
import re

from tests.docs.pages import DOCS, ROOT, Page

_PAGE = Page(DOCS / "architecture.md")


def rows(title: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, its head left out."""
    section = _PAGE.text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_each_of_many_changes_has_its_files() -> None:
    changes = rows("Where to change what")
    assert len(changes) >= 15
    files = {change: re.findall(r"`([\w/]+(?:\.\w+)?/[\w./]+)`", " ".join(cells)) for change, *cells in changes}
    assert [change for change, names in files.items() if not names] == []
    assert [name for names in files.values() for name in names if not (ROOT / name).exists()] == []


def test_every_package_is_listed_and_there() -> None:
    listed = [cells[0].strip("`") for cells in rows("Packages")]
    packages = [path.parent for root in ("hetero_mtf", "hetero_mtf/planning") for path in (ROOT / root).glob("*/__init__.py")]
    assert sorted(listed) == sorted(package.relative_to(ROOT).as_posix() for package in packages)


def test_the_commands_it_lists_are_targets_of_make() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = [cells[0].strip("`").removeprefix("make ") for cells in rows("Tests") if cells[0].startswith("`make ")]
    assert {"test", "test-all", "docs"} <= set(commands)
    assert [command for command in commands if f"\n{command}:" not in makefile] == []


def test_every_marker_of_the_tests_is_explained() -> None:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    markers = {line.partition(":")[0] for line in settings["tool:pytest"]["markers"].split("\n") if line}
    assert markers <= {row.split("`")[1] for row in _PAGE.text.splitlines() if row.startswith("| `")}
