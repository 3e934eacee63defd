"""The pages of the documentation as their parts: blocks of code, links, headings and names of files."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import re
import shlex
import textwrap
from collections.abc import Iterator
from typing import NamedTuple

import markdown_it
from markdown_it.token import Token

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_FOLDERS = "hetero_mtf|tests|tools|models|docs"
_FILE = re.compile(rf"`(?:python3? )?((?:{_FOLDERS})/[\w./-]*)")
_MODULE = re.compile(r"`python -m (tools\.[\w.]+)")


class Block(NamedTuple):
    """A fenced block: its language, its text, its first line's number, and whether it follows the block before it directly."""

    language: str
    text: str
    line: int
    follows: bool


@dataclasses.dataclass(frozen=True)
class Page:
    """A page in Markdown."""

    path: pathlib.Path

    @property
    def name(self) -> str:
        """The path in the repository."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def text(self) -> str:
        """The page as written."""
        return self.path.read_text(encoding="utf-8")

    def blocks(self, *languages: str) -> list[Block]:
        """Return the fenced blocks, those of some languages if any are named."""
        blocks, end = list[Block](), -1
        for token in self._tokens():
            if token.type == "fence":
                first, last = token.map or (0, 0)
                blocks.append(Block(token.info.strip(), token.content, first + 2, not "".join(self._lines()[end:first]).strip()))
                end = last
        return [block for block in blocks if not languages or block.language in languages]

    def commands(self) -> list[str]:
        """Return the commands of the blocks of shell code, one a line, without comments; a line that ends in a backslash goes on.

        Of a script, which begins with #!, those of the project alone: tests run it as a whole.
        """
        blocks = [(block.text.startswith("#!"), block.text.replace("\\\n", " ").splitlines()) for block in self.blocks("sh", "bash")]
        lines = [line for is_script, of_block in blocks for line in of_block if not is_script or "hetero-mtf" in line]
        return [shlex.join(words) for words in (shlex.split(line, comments=True) for line in lines) if words]

    def files(self) -> list[str]:
        """Return the files of the repository that the text names as code, by their path or by the module that a command runs."""
        modules = {module_file(name).relative_to(ROOT).as_posix() for name in _MODULE.findall(self.text)}
        return sorted({name.rstrip(".") for name in _FILE.findall(self.text)} | modules)

    def links(self) -> list[str]:
        """Return the targets of links and pictures."""
        inline = [child for token in self._tokens() for child in token.children or ()]
        targets = [child.attrs.get("href") or child.attrs.get("src") for child in inline if child.type in ("link_open", "image")]
        return [str(target) for target in targets]

    def anchors(self) -> set[str]:
        """Return the anchors of the headings, as a code host and the site make them."""
        tokens = self._tokens()
        titles = [after for token, after in zip(tokens, tokens[1:]) if token.type == "heading_open"]
        return {_slug(_plain(title)) for title in titles}

    def _tokens(self) -> list[Token]:
        return _parsed(self.text)

    def _lines(self) -> list[str]:
        return self.text.splitlines(keepends=True)


@functools.cache  # a page is asked for its tokens about twenty times while tests are collected
def _parsed(text: str) -> list[Token]:
    return markdown_it.MarkdownIt("commonmark").enable("table").parse(text)


def module_file(name: str) -> pathlib.Path:
    """Return the file that `python -m NAME` runs."""
    path = ROOT / name.replace(".", "/")
    return path / "__main__.py" if path.is_dir() else path.with_suffix(".py")


def pages() -> list[Page]:
    """Return the README, the page for contributors, and the pages of the site, those that are built left out."""
    site = [*sorted(DOCS.glob("*.md")), *sorted((DOCS / "results").glob("*.md"))]
    return [Page(ROOT / "README.md"), Page(ROOT / "CONTRIBUTING.md"), *map(Page, site)]


def _plain(token: Token) -> str:
    return "".join(child.content for child in token.children or () if child.type in ("text", "code_inline"))


def _slug(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def expected_output(blocks: list[Block]) -> Iterator[tuple[int, str]]:
    """Yield each output that a page shows, with the index of its block of Python among those of the page.

    An output is a comment at the end of a line that prints, or a block of text that follows a block of Python directly. Three
    dots in it stand for anything.
    """
    index = -1
    for block, before in zip(blocks, [None, *blocks]):
        if block.language == "python":
            index += 1
            yield from ((index, shown) for shown in re.findall(r"^ *print\(.*\)  # (.+)$", block.text, re.MULTILINE))
        elif block.language == "text" and block.follows and before is not None and before.language == "python":
            yield index, textwrap.dedent(block.text).strip("\n")
