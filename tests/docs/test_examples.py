"""The Python of the README and of each page runs as printed, and prints what the page shows."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

from tests.docs.pages import ROOT, Block, Page, expected_output, pages

NOT_RUN = frozenset({"docs/api.md"})  # shows the import alone
_BORDER = "=== end of block {} ==="
_WITH_PYTHON = [page for page in pages() if page.blocks("python") and page.name not in NOT_RUN]


def run_blocks(blocks: list[Block], folder: pathlib.Path) -> list[str]:
    """Return what each block of Python prints; all run as one program in a fresh interpreter, in a folder.

    A block that begins with `# NAME.py` is written to that file too, as a reader would. Calibration gets a budget of a few seconds.
    """
    for block in blocks:
        first = block.text.partition("\n")[0]
        if first.startswith("# ") and first.endswith(".py"):
            (folder / first[2:]).write_text(block.text)
    program = "\n".join(f"{block.text}\nprint({_BORDER.format(index)!r}, flush=True)" for index, block in enumerate(blocks))
    (folder / "page.py").write_text(re.sub(r"budget_s=\d+", "budget_s=4", program))
    (folder / "models").symlink_to(ROOT / "models")
    done = subprocess.run([sys.executable, "-W", "ignore", "page.py"], cwd=folder, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    outputs, rest = [], done.stdout
    for index in range(len(blocks)):
        output, border, rest = rest.partition(_BORDER.format(index) + "\n")
        assert border, f"block {index} did not end"
        outputs.append(output)
    return outputs


def is_printed(shown: str, output: str) -> bool:
    """Return whether whole lines of an output are what a page shows, in which three dots stand for anything."""
    lines = (re.escape(line.rstrip()).replace(re.escape("..."), ".*") for line in textwrap.dedent(shown).splitlines())
    stripped = "\n".join(line.rstrip() for line in output.splitlines())
    return re.search(f"^{chr(10).join(lines)}$", stripped, re.MULTILINE) is not None


@pytest.mark.slow
@pytest.mark.parametrize("page", _WITH_PYTHON, ids=[page.name for page in _WITH_PYTHON])
def test_the_python_of_a_page_runs_as_printed_in_one_fresh_interpreter(page: Page, tmp_path: pathlib.Path) -> None:
    outputs = run_blocks(page.blocks("python"), tmp_path)
    missing = [shown for index, shown in expected_output(page.blocks()) if not is_printed(shown, outputs[index])]
    assert missing == [], outputs


def test_the_readme_has_an_example() -> None:
    assert any(page.name == "README.md" for page in _WITH_PYTHON)


def test_a_shown_output_is_a_comment_after_a_print_or_the_next_block(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("```python\nprint(1)  # 1\nx = 2  # two\n```\n\n```text\nA\nB\n```\nand\n```text\nC\n```\n```python\nprint()\n```\n")
    assert list(expected_output(Page(path).blocks())) == [(0, "1"), (0, "A\nB")]


def test_an_output_that_differs_from_the_page_is_noticed(tmp_path: pathlib.Path) -> None:
    outputs = run_blocks([Block("python", "x = 41\nprint('a', x)", 1, True), Block("python", "print(x + 1)", 9, True)], tmp_path)
    assert is_printed("a 41", outputs[0]) and is_printed("...4...", outputs[0]) and is_printed("42", outputs[1])
    assert not is_printed("a 4", outputs[0]) and not is_printed("41", outputs[1])
