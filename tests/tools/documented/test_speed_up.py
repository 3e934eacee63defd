"""The curves of the speed-up, from rows that are given here."""

from __future__ import annotations

import pathlib

from matplotlib.figure import Figure

from tools.documented.speed_up import draw_speed_ups, speed_ups
from tools.papers.speedup import SPEEDUP, curve_rows
from tools.results.publication import publish

POINTS = {"points": [{"devices": count, "rounds_s": {"alone 0": [2.0], "auto": [2.0 / speed]}} for count, speed in ((4, 4.0), (2, 1.6))]}


def test_a_curve_begins_with_one_device_and_goes_on_by_number_of_devices() -> None:
    assert speed_ups(tuple(curve_rows("net", 0.4, 8, POINTS))) == {"net": {"auto": [(1.0, 1.0), (2.0, 1.6), (4.0, 4.0)]}}


def test_there_is_a_panel_for_each_network_with_the_ideal(tmp_path: pathlib.Path) -> None:
    publish(tmp_path, SPEEDUP, [row for name in ("one", "two") for row in curve_rows(name, 0.4, 8, POINTS)])
    figure = Figure()
    draw_speed_ups(figure, tmp_path / "paper_speedup.json")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["one", "two"]
    assert all([line.get_label() for line in axes.lines] == ["ideal", "auto"] for axes in figure.axes)
