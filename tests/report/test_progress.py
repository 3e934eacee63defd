from __future__ import annotations

import io

import pytest
from rich.console import Console

from hetero_mtf.report.progress import progress


def test_nothing_is_shown_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    page = io.StringIO()
    with progress("working", 2, Console(file=page)) as advance:
        advance("one")
        advance("two")
    with progress("working", 1) as advance:
        advance("one")
    assert page.getvalue() == "" and capsys.readouterr() == ("", "")


def test_a_terminal_sees_the_title_the_count_and_the_step() -> None:
    page = io.StringIO()
    with progress("working", 2, Console(file=page, force_terminal=True, width=100)) as advance:
        advance("conv [1] forward")
        advance("dense forward")
    shown = page.getvalue()
    assert "working" in shown and "2/2" in shown and "dense forward" in shown


def test_an_error_inside_ends_the_bar_and_is_not_swallowed() -> None:
    page = io.StringIO()
    with pytest.raises(KeyError), progress("working", 2, Console(file=page, force_terminal=True)):
        raise KeyError("gone")
    assert page.getvalue().endswith("\x1b[2K") or "\x1b[?25h" in page.getvalue()  # the cursor is shown again
