from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import pytest
from rich.console import Console

from hetero_mtf.errors import HeteroError
from hetero_mtf.report.progress import progress


def stepped(seconds: float) -> Callable[[], float]:
    """Return a clock that goes on by so much whenever it is read."""

    def times() -> Iterator[float]:
        now_s = 0.0
        while True:
            yield now_s
            now_s += seconds

    return times().__next__


def test_a_short_task_leaves_no_line_in_a_log_file(capsys: pytest.CaptureFixture[str]) -> None:
    page = io.StringIO()
    with progress("working", 2, Console(file=page)) as advance:
        advance("one")
        advance("two")
    with progress("working", 1) as advance:
        advance("one")
    assert page.getvalue() == "" and capsys.readouterr() == ("", "")


def test_a_log_file_gets_a_line_every_ten_seconds_and_one_at_the_end() -> None:
    page = io.StringIO()
    with progress("working", 8, Console(file=page), clock=stepped(5.0)) as advance:
        for number in range(8):
            advance(f"layer [{number}]")
    first, *others = page.getvalue().splitlines()
    assert first == "working: 2 of 8 (layer [1]), 10.0 s so far, about 30.0 s left"
    assert [line.partition(" (")[0] for line in others] == ["working: 4 of 8", "working: 6 of 8", "working: 8 of 8 in 45.0 s"]


def test_a_long_task_leaves_a_line_a_minute_in_a_log_file() -> None:
    page = io.StringIO()
    with progress("working", 600, Console(file=page), clock=stepped(1.0)) as advance:
        for _ in range(600):
            advance("")
    assert len(page.getvalue().splitlines()) == 6 + 8 + 1  # of the first minute, of the nine minutes after it, the end


def test_a_terminal_gets_lines_on_request_and_nothing_with_zero() -> None:
    lines, nothing = io.StringIO(), io.StringIO()
    for page, verbose in ((lines, 2), (nothing, 0)):
        with progress("working", 3, Console(file=page, force_terminal=True), verbose, stepped(11.0)) as advance:
            advance("one")
    assert lines.getvalue().startswith("working: 1 of 3 (one)") and "\x1b" not in lines.getvalue()
    assert nothing.getvalue() == ""


@pytest.mark.parametrize("verbose", ["loud", 3, -1, None, 1.5])
def test_another_verbosity_is_refused_with_those_that_there_are(verbose: object) -> None:
    with pytest.raises(HeteroError, match="verbose is .*; use 'auto', 0 .*, 1 .* or 2"), progress("working", 1, verbose=verbose):  # type: ignore[arg-type]
        pass


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


def test_a_notebook_without_widgets_gets_lines_and_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    times = iter((0.0, 11.0, 11.0, 12.0))
    printed: list[str] = []
    console = Console(force_jupyter=True)
    monkeypatch.setattr(console, "print", lambda text, **_: printed.append(text))
    with progress("calibrating", 2, console, clock=lambda: next(times)) as advance:
        advance("first")
        advance("")
    assert printed[0].startswith("calibrating: 1 of 2 (first)") and len(printed) == 2
