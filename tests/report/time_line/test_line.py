from __future__ import annotations

from hetero_mtf.report.time_line.line import Span, TimeLine, time_line_text


def line(*spans: Span, total_s: float = 1.0) -> TimeLine:
    return TimeLine(("a", "long"), spans, total_s)


def test_every_row_is_as_long_as_was_asked_for() -> None:
    text = time_line_text(line(Span(0, "forward", "0", "", 0.0, 1.0), Span(1, "update", "", "", 0.95, 1.0)), 40)
    assert [len(row) for row in text] == [40] * 3 and text[0].endswith("1.00 s")
    assert text[1] == "a     f0" + "-" * 32 and text[2] == "long  " + "." * 32 + "u~"


def test_a_number_that_does_not_fit_is_left_out_and_never_cut() -> None:
    rows = time_line_text(line(Span(0, "backward", "12", "", 0.0, 0.2), Span(0, "backward", "13", "", 0.2, 0.5), total_s=1.0), 16)
    assert rows[1] == "a     b=b13....."


def test_what_is_narrower_than_a_column_and_transfers_are_not_shown() -> None:
    rows = time_line_text(line(Span(0, "forward", "0", "", 0.0, 0.01), Span(1, "transfer", "0", "", 0.0, 1.0)), 26)
    assert rows[1:] == ["a     " + "." * 20, "long  " + "." * 20]


def test_a_line_of_no_time_is_empty() -> None:
    assert time_line_text(line(Span(0, "forward", "0", "", 0.0, 0.0), total_s=0.0), 20)[1] == "a     " + "." * 14
    assert line().end_s == 0.0 and line(Span(0, "update", "", "", 0.2, 0.5)).end_s == 0.5
