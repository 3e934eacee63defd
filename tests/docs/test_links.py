"""Links between pages lead somewhere, files that pages name are there, and every page can be reached."""

from __future__ import annotations

import pathlib
import re

import pytest

from tests.docs.pages import DOCS, ROOT, Page, pages

_PAGES = [*pages(), Page(ROOT / "CHANGELOG.md"), Page(ROOT / "tools" / "bench" / "README.md")]
_NAMES = ("quickstart", "concepts", "planning", "pipelines", "mri", "own_layers", "mesh_tensorflow", "hosts", "command_line", "api")


def broken_links(page: Page) -> list[str]:
    """Return the relative links of a page to files or headings that are not there."""
    return [target for target in page.links() if not re.match(r"[a-z]+:", target) and not _resolves(page, target)]


def _resolves(page: Page, target: str) -> bool:
    name, _, anchor = target.partition("#")
    path = (page.path.parent / name).resolve() if name else page.path
    if not path.exists():
        return False
    return not anchor or (path.suffix == ".md" and anchor in Page(path).anchors())


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_links_between_pages_resolve(page: Page) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_the_files_that_a_page_names_are_there(page: Page) -> None:
    assert [name for name in page.files() if not (ROOT / name).exists()] == []


def contents(page: Page) -> list[str]:
    """Return the entries of a page's table of contents."""
    (toctree,) = [block for block in page.blocks() if block.language == "{toctree}"]
    return [line for line in toctree.text.splitlines() if line and not line.startswith(":")]


def test_every_page_is_in_a_table_of_contents() -> None:
    entries, topics = contents(Page(DOCS / "index.md")), contents(Page(DOCS / "results.md"))
    assert set(_NAMES) <= set(entries)
    assert sorted([*entries, "index"]) == sorted(path.stem for path in DOCS.glob("*.md"))
    assert sorted(topics) == sorted(f"results/{path.stem}" for path in (DOCS / "results").glob("*.md"))


def test_every_page_is_linked_from_the_first() -> None:
    linked = {target.partition("#")[0] for target in Page(DOCS / "index.md").links()}
    assert [path.name for path in sorted(DOCS.glob("*.md")) if path.name not in {*linked, "index.md"}] == []
    topics = {target.partition("#")[0] for target in Page(DOCS / "results.md").links()}
    assert [path.name for path in sorted((DOCS / "results").glob("*.md")) if f"results/{path.name}" not in topics] == []


def test_a_broken_link_is_reported(tmp_path: pathlib.Path) -> None:
    (tmp_path / "docs").mkdir()
    path, other = tmp_path / "docs" / "page.md", tmp_path / "docs" / "other.md"
    other.write_text("# A heading, `with` code\n")
    path.write_text("[a](other.md) [b](other.md#a-heading-with-code) [c](other.md#gone) ![d](gone.png) [e](https://example.org/x)\n")
    assert broken_links(Page(path)) == ["other.md#gone", "gone.png"]
