from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from hetero_mtf.report.time_line.line import Span, TimeLine
from hetero_mtf.report.time_line.picture import ticks, time_line_svg

SPANS = (
    Span(0, "forward", "0", "stage 0 <first>", 0.0, 0.5),
    Span(1, "backward", "10", "back", 0.5, 1.0),
    Span(1, "update", "", "update", 1.0, 1.1),
    Span(0, "transfer", "0", "sent", 0.5, 0.50001),
)
LINE = TimeLine(("worker:0 & more", "worker:1"), SPANS, 1.1)


def drawn(line: TimeLine) -> ElementTree.Element:
    return ElementTree.fromstring(time_line_svg(line, "A title"))


def test_bars_are_in_proportion_to_their_seconds_and_coloured_by_kind() -> None:
    bars = drawn(LINE).findall(".//rect")
    assert [bar.get("style") for bar in bars] == [f"fill:var(--{span.kind})" for span in SPANS]
    widths = [float(bar.get("width", "")) for bar in bars]
    assert widths[0] == pytest.approx(widths[1]) == pytest.approx(5 * widths[2], abs=0.1) and widths[3] == 1.0
    starts, tops = ([float(bar.get(name, "")) for bar in bars] for name in ("x", "y"))
    assert starts[1] - starts[0] == pytest.approx(widths[0]) and tops[0] < tops[3] < tops[1]
    assert float(bars[3].get("height", "")) < float(bars[0].get("height", "")) / 3


def test_bars_say_what_they_are_and_rows_whose_they_are() -> None:
    root = drawn(LINE)
    assert [title.text for title in root.iter("title")] == [span.told for span in SPANS]
    texts = [text.text for text in root.iter("text")]
    assert {"worker:0 & more", "worker:1", "0", "10", "200 ms", "1.00 s"} <= set(texts)
    assert root.find(".//svg").get("aria-label") == "A title: 2 rows over 1.10 s"  # type: ignore[union-attr]
    assert [item.find("i").tail for item in root.iter("li")] == ["forward pass", "backward pass", "update", "communication"]  # type: ignore[union-attr]


def test_a_number_is_written_only_where_it_fits() -> None:
    short = TimeLine(("a",), (Span(0, "forward", "7", "", 0.0, 0.001), Span(0, "forward", "8", "", 0.1, 1.0)), 1.0)
    assert [text.text for text in drawn(short).findall(".//text[@class='in']")] == ["8"]
    assert "NaN" not in time_line_svg(TimeLine(("a",), (), 0.0), "nothing")


@pytest.mark.parametrize("total_s", [1e-7, 0.0123, 1.0, 1.2, 6.7, 59.0, 7200.0])
def test_there_are_a_few_round_seconds_on_the_axis(total_s: float) -> None:
    found = ticks(total_s)
    assert found[0] == 0.0 and 3 <= len(found) <= 7 and found[-1] <= total_s * (1 + 1e-6)
    assert str(f"{found[1]:e}")[0] in "125"


def test_no_time_has_one_tick() -> None:
    assert ticks(0.0) == [0.0]
